"""The page of `regard look`: its files by name, its modules as one script, the page as one HTML file."""

import base64
import hashlib
import html
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from regard.page.bundle import bundle

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
}
SCRIPT_FILE = "regard.js"
PACKAGE = "regard.page"
# Content-Security-Policy of the files that a server sends
SERVED_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
# of the HTML file, in a <meta>, where frame-ancestors has no effect
INLINED_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
# of an HTML file that runs a model: the worker is a blob: URL, the module of the engine a data: URL
LIVE_POLICY = (
    "default-src 'none'; script-src {script} 'wasm-unsafe-eval' data:; worker-src blob:; style-src {style}; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types worker"
)


@dataclass(frozen=True, kw_only=True)
class HeldModel:
    """A model that the HTML file runs."""

    script: str  # the page's script, which runs it
    elements: str  # HTML that holds its files


@dataclass(frozen=True, kw_only=True)
class Asset:
    """A file of the page and its content type."""

    content: bytes
    content_type: str


@cache
def assets() -> dict[str, Asset]:
    """All files that a server may send, by name; SCRIPT_FILE bundles the modules."""
    bundled = Asset(content=script().encode(), content_type=CONTENT_TYPES[".js"])
    return assets_of(PACKAGE) | {SCRIPT_FILE: bundled}


@cache
def assets_of(package: str) -> dict[str, Asset]:
    """The files of a page in the folder `static` of this package, by name, as "views/heads.js"."""
    return dict(sorted(_assets_in(files(package) / "static")))


def _assets_in(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, Asset]]:
    for item in folder.iterdir():
        if item.is_dir():
            yield from _assets_in(item, f"{prefix}{item.name}/")
        elif content_type := CONTENT_TYPES.get("." + item.name.rpartition(".")[2]):
            yield prefix + item.name, Asset(content=item.read_bytes(), content_type=content_type)


def script() -> str:
    """The whole page as one classic script."""
    return bundle(modules(), "page.js")


def widget_script() -> str:
    """The whole page as one ES module with the default export {render}: anywidget's `_esm`."""
    return bundle(modules(), "widget.js", esm=True)


def stylesheet() -> str:
    """The page's style sheets, with all rules below `.regard`: anywidget's `_css`."""
    return "\n".join(assets_of(PACKAGE)[name].content.decode() for name in ("regard.css", "views.css"))


def modules() -> dict[str, str]:
    """The page's modules by name."""
    found = assets_of(PACKAGE).items()
    return {name: asset.content.decode() for name, asset in found if name.endswith(".js")}


def one_file(
    summary: Mapping[str, Any],
    documents: Mapping[str, bytes],
    arrays: Mapping[str, bytes],
    *,
    title: str | None = None,
    model: HeldModel | None = None,
) -> str:
    """The page with the resources of one look as HTML, which opens from disk and uses no network.

    The policy allows one script and one style sheet, by their hashes. Data is escaped, so that it cannot end
    its element.

    Args:
        documents: JSON files by the paths of their resources.
        arrays: .npy files by the paths of their resources.
        model: runs in the page, which then shows other texts too.
    """
    code = _checked_content(script() if model is None else model.script, "script")
    style = _checked_content(stylesheet(), "style")
    policy = policy_of(INLINED_POLICY if model is None else LIVE_POLICY, code, style)
    data = {
        "json": {"summary": summary} | {path: json.loads(text) for path, text in documents.items()},
        "arrays": {path: base64.b64encode(content).decode() for path, content in arrays.items()},
    }
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>{html.escape(_printable(title or "regard"))}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="regard" class="regard"><p class="hint">One moment: the page is being laid out.</p></div>
<noscript><p>This page draws with JavaScript, which is switched off.</p></noscript>
<script type="application/json" id="regard-look">{_script_json(data)}</script>
{"" if model is None else model.elements}<script>{code}</script>
</body>
</html>
"""


def _script_json(value: object) -> str:
    """JSON for a <script> element: `<` and line separators are escaped, so no text can end the element.

    Lone surrogates, which UTF-8 cannot encode, are escaped too.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)


def _printable(title: str) -> str:
    """A title in which characters that are not printable are replaced."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in title
    )


def _checked_content(text: str, tag: str) -> str:
    """The text of an element; a ValueError if it could end its element."""
    if f"</{tag}" in text.lower() or "<!--" in text:
        raise ValueError(f"the page's own code contains the end of its <{tag}>")
    return text


def policy_of(policy: str, code: str, style: str) -> str:
    """A policy that allows this script and this style sheet, by their hashes."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (code, style)]
    script_hash, style_hash = (f"'sha256-{each}'" for each in hashes)
    return policy.format(script=script_hash, style=style_hash)
