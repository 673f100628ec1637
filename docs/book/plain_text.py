"""Plain text of the source (help texts, docstrings, comments) as nodes of a page; `code` becomes code."""

import re
from collections.abc import Sequence

from docutils import nodes

CODE = re.compile(r"``?([^`]+)``?|(?<![\w-])(--[a-z][a-z-]*)")


def inline(text: str) -> list[nodes.Node]:
    """The words of a sentence, with options and what is between backticks as code."""
    found: list[nodes.Node] = []
    end = 0
    for match in CODE.finditer(text):
        code = match[1] or match[2]
        found += [nodes.Text(text[end : match.start()]), nodes.literal(code, code)]
        end = match.end()
    return [*found, nodes.Text(text[end:])]


def paragraphs(text: str) -> list[nodes.Node]:
    """A paragraph for each part between empty lines; what is indented stays as it is."""
    found: list[nodes.Node] = []
    for part in filter(None, re.split(r"\n\s*\n", text.replace("\b", "").strip("\n"))):
        if part.startswith("    "):
            found.append(nodes.literal_block(part, "\n".join(line[4:] for line in part.splitlines())))
        elif part.strip():
            found.append(nodes.paragraph("", "", *inline(" ".join(part.split()))))
    return found


def table(
    header: Sequence[str], rows: Sequence[Sequence[Sequence[nodes.Node]]], widths: Sequence[int]
) -> nodes.table:
    """A table whose cells hold inline nodes."""
    group = nodes.tgroup("", *(nodes.colspec("", colwidth=width) for width in widths), cols=len(header))
    head = nodes.row("", *(nodes.entry("", nodes.paragraph("", each)) for each in header))
    group += nodes.thead("", head)
    group += nodes.tbody("", *(_row(row) for row in rows))
    return nodes.table("", group)


def _row(cells: Sequence[Sequence[nodes.Node]]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", *cell)) for cell in cells))
