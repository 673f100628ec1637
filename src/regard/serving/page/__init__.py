"""The files of the server's page, by name."""

from dataclasses import replace
from functools import cache

from regard.page.assets import Asset, assets_of

HEAD = b"<!--head-->\n"  # in a page: here begins what all pages have


@cache
def page_files() -> dict[str, Asset]:
    """All files that a browser may ask for."""
    files = dict(assets_of("regard.serving.page"))
    head = files.pop("head.html").content
    return {
        name: replace(each, content=each.content.replace(HEAD, head)) if name.endswith(".html") else each
        for name, each in files.items()
    }
