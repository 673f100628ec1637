"""The files of the server's page, by name."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}


@dataclass(frozen=True, kw_only=True)
class PageFile:
    """A file and its content type."""

    content: bytes
    content_type: str


@cache
def page_files() -> dict[str, PageFile]:
    """All files that a browser may ask for."""
    found = {}
    for item in sorted((files("regard.serving.page") / "static").iterdir(), key=lambda item: item.name):
        kind = CONTENT_TYPES.get(item.name.rpartition(".")[2])
        if kind is not None:
            found[item.name] = PageFile(content=item.read_bytes(), content_type=kind)
    return found
