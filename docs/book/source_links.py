"""A Sphinx extension: `` {source}`layers/attention.py` `` links the page of a file of the package."""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxRole

PACKAGE = Path(__file__).parents[2] / "src/regard"


class Source(SphinxRole):
    """A file below src/regard; sphinx.ext.viewcode shows those that define a public name."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        name = nodes.literal(self.text, self.text)
        if not (PACKAGE / self.text).is_file():
            return [name], [self.inliner.reporter.error(f"no file {self.text}", line=self.lineno)]
        page = f"_modules/regard/{self.text.removesuffix('.py')}"
        builder = self.env._app.builder
        link = builder.get_relative_uri(self.env.docname, page) if builder.format == "html" else ""
        return [nodes.reference("", "", name, refuri=link)], []


def setup(app: Any) -> dict[str, bool]:
    """Register the role."""
    app.add_role("source", Source())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
