"""A Sphinx extension: `{errors}` is the table of regard's exceptions, from their classes."""

import inspect
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from plain_text import inline, table
from sphinx.util.docutils import SphinxDirective

from regard.errors import Interrupted, Reported

SIGNALS = "128 + the number of the signal"


class Errors(SphinxDirective):
    """A row for each class: what it is for, its exit code, the class above."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # the classes can change without a change of the page
        rows = [[inline(cell) for cell in row] for row in described(Reported)]
        return [table(("exception", "what it is for", "exit code", "is a"), rows, (15, 45, 20, 15))]


def described(cls: type[Reported]) -> Iterator[tuple[str, str, str, str]]:
    """The cells of a class and of those below it."""
    code = SIGNALS if issubclass(cls, Interrupted) else str(cls.exit_code)
    about = (inspect.getdoc(cls) or "").partition("\n")[0]
    base = "" if cls is Reported else f"`{cls.__bases__[0].__name__}`"
    yield f"`{cls.__name__}`", about, code, base
    for each in cls.__subclasses__():
        if each.__module__ == Reported.__module__:
            yield from described(each)


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("errors", Errors)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
