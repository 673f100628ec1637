"""A Sphinx extension: what the theme's pages lack for a screen reader."""

import re
from typing import Any

PARAMETERS = re.compile(r"<dl>(?=\s*<dd>)")  # lines of a signature, which are not terms with descriptions
HEADING = 'role="heading"'
TABLE = '<div class="table-wrapper'  # which scrolls where the page is narrow, by the keyboard too
PARTS = ("body", "furo_navigation_tree")


def mend_roles(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give captions of lists, whose role is that of headings, a level; signatures no role of a list."""
    for part in PARTS:
        if part in context:
            context[part] = context[part].replace(HEADING, f'{HEADING} aria-level="2"')
    if "body" in context:
        body = PARAMETERS.sub('<dl role="presentation">', context["body"])
        context["body"] = body.replace(TABLE, f'<div tabindex="0"{TABLE[4:]}')


def setup(app: Any) -> dict[str, bool]:
    """Register it behind the theme, which makes the lists."""
    app.connect("html-page-context", mend_roles, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
