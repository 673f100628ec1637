"""A Sphinx extension: `{public-names}` describes the public names of a package from docstrings and types."""

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from tools.api_page import line_about, public_names

SECTION = re.compile(r"\s*(Args|Returns|Raises|Yields|Attributes|Example|Examples|Note):$")
MARKUP = re.compile(r"(`+[^`]+`+)|([*|\\]|(?<=\w)_(?!\w))")

NO_PYTHON = re.compile(r"(?<== )<.+?>(?=, |\))")


class PublicNames(SphinxDirective):
    """Each name that the package lists in `__all__`: its signature, its docstring, its methods."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # the docstrings can change without a change of the page
        package = importlib.import_module(self.arguments[0])
        lines = ["```{eval-rst}", *described(package), "```"]
        return self.parse_text_to_nodes("\n".join(lines))


def described(package: Any) -> Iterator[str]:
    """The lines of reStructuredText, in which autodoc is called for each name."""
    for name in public_names(package):
        value, full = getattr(package, name), f"{package.__name__}.{name}"
        if inspect.isclass(value):
            yield from (f".. autoclass:: {full}", "   :members:", "   :member-order: bysource", "")
        elif inspect.isroutine(value):
            yield from (f".. autofunction:: {full}", "")
        else:
            yield from (f".. py:data:: {full}", "", f"   {escaped(line_about(package, name))}", "")


def escaped(text: str) -> str:
    """Plain text as reStructuredText: what is not code has no markup."""
    return MARKUP.sub(lambda match: match[1] or f"\\{match[2]}", text)


def as_rst(lines: list[str]) -> list[str]:
    """A docstring as reStructuredText: its indented blocks are code, its other lines have no markup.

    The lines of sections such as `Args:` stay as they are, for sphinx.ext.napoleon.
    """
    found: list[str] = []
    in_section = in_code = False
    for line in lines:
        indented = line.startswith("    ")
        if SECTION.match(line):
            in_section = True
        elif line.strip() and not indented:
            in_section = in_code = False
        if indented and not in_section:
            if not in_code:
                found += [".. code-block:: python", ""]
            in_code = True
            found.append(line)
        else:
            found.append(line if in_section and line.lstrip().startswith("*") else escaped(line))
    return found


def process_docstring(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Convert a docstring in place, before sphinx.ext.napoleon reads its sections."""
    lines[:] = as_rst(lines)
    if what == "property":
        lines.insert(0, "")  # otherwise what is before a colon in the first line is taken for its type


def process_signature(
    app: Any, what: str, name: str, value: Any, options: Any, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Write `...` for a default that is no Python, such as that of a dataclass's factory."""
    return signature and NO_PYTHON.sub("...", signature), returned


def keep_calls(app: Any, what: str, name: str, value: Any, skip: bool, options: Any) -> bool | None:
    """Keep what is called by calling the object, though its class has the docstring."""
    return False if name in ("forward", "__call__") else None


def setup(app: Any) -> dict[str, bool]:
    """Register the directive and the conversion."""
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", process_docstring, priority=100)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("autodoc-skip-member", keep_calls)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
