"""The page's files by name, its modules as one script, and the page as one HTML file with data."""

import base64
import hashlib
import html
import json
from collections.abc import Mapping
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
SERVED_POLICY = (  # Content-Security-Policy of the server
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
INLINED_POLICY = (  # of the HTML file; frame-ancestors has no effect in a <meta>
    "default-src 'none'; script-src {script}; style-src {style}; img-src data: blob:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)


# of an HTML file that runs a model: from disk its worker is a blob, and the engine's module is in an address
LIVE_POLICY = (
    "default-src 'none'; script-src {script} 'wasm-unsafe-eval' data:; worker-src blob:; style-src {style}; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types worker"
)


@dataclass(frozen=True, kw_only=True)
class HeldModel:
    """A model for a page to run: the page's script, which runs it, and elements that hold its files."""

    script: str
    elements: str


@dataclass(frozen=True, kw_only=True)
class Asset:
    """A file of the page and its content type."""

    content: bytes
    content_type: str


@cache
def assets() -> dict[str, Asset]:
    """All files that a server may send, by name; "regard.js" bundles the modules."""
    bundled = Asset(content=script().encode(), content_type=CONTENT_TYPES[".js"])
    return _files() | {SCRIPT_FILE: bundled}


def asset(name: str) -> Asset | None:
    """The asset of this name, or None."""
    return assets().get(name)


@cache
def assets_of(package: str) -> dict[str, Asset]:
    """The files of a page in the folder `static` of this package, by name."""
    return {
        name: Asset(content=file.read_bytes(), content_type=CONTENT_TYPES["." + name.rpartition(".")[2]])
        for name, file in sorted(_walk(files(package) / "static"))
    }


def _files() -> dict[str, Asset]:
    return assets_of("regard.page")


def _walk(folder: Traversable, prefix: str = "") -> list[tuple[str, Traversable]]:
    found = []
    for item in folder.iterdir():
        if item.is_dir():
            found += _walk(item, f"{prefix}{item.name}/")
        elif "." + item.name.rpartition(".")[2] in CONTENT_TYPES:
            found.append((prefix + item.name, item))
    return found


def script() -> str:
    """The whole page as one classic script."""
    return bundle(modules(), "page.js")


def widget_script() -> str:
    """The whole page as one ES module with the default export {render}: anywidget's `_esm`."""
    return bundle(modules(), "widget.js", esm=True)


def stylesheet() -> str:
    """The page's style sheets, with all rules below `.regard`: anywidget's `_css`."""
    return "\n".join(_files()[name].content.decode() for name in ("regard.css", "views.css"))


def modules() -> dict[str, str]:
    """The page's modules by name."""
    return {name: asset.content.decode() for name, asset in _files().items() if name.endswith(".js")}


def one_file(
    summary: Mapping[str, Any],
    documents: Mapping[str, bytes],
    arrays: Mapping[str, bytes],
    *,
    title: str | None = None,
    model: HeldModel | None = None,
) -> str:
    """The page with one look as HTML that opens from disk and uses no network.

    `documents` are JSON and `arrays` .npy files, both as bytes by their path in the look. The policy allows
    one script and one style sheet, by their hashes; data is escaped, so that it cannot end its element. With
    a `model` the page looks at other texts too.
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
<title>{html.escape(visible_title(title or "regard"))}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<div id="regard" class="regard"><p class="hint">One moment: the page is being laid out.</p></div>
<noscript><p>This page draws with JavaScript, which is switched off.</p></noscript>
<script type="application/json" id="regard-look">{embedded(data)}</script>
{"" if model is None else model.elements}<script>{code}</script>
</body>
</html>
"""


def embedded(value: object) -> str:
    """JSON for a <script> element: `<` and line separators are escaped, so no text can end the element.

    Lone surrogates, which UTF-8 cannot encode, are escaped too.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)


def visible_title(title: str) -> str:
    """A title in which characters that are not printable are replaced."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in title
    )


def _checked_content(text: str, tag: str) -> str:
    """The code; a ValueError if it could end its element."""
    if f"</{tag}" in text.lower() or "<!--" in text:
        raise ValueError(f"the page's own code contains the end of its <{tag}>")
    return text


def policy_of(policy: str, code: str, style: str) -> str:
    """A policy that allows this script and this style sheet, by their hashes."""
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (code, style)]
    script_hash, style_hash = (f"'sha256-{each}'" for each in hashes)
    return policy.format(script=script_hash, style=style_hash)
