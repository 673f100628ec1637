"""An exported page and all that it loads as one HTML file, which opens from disk."""

import base64
import gzip
import hashlib
import json
import re
from pathlib import Path

from regard.exports.web_runtime import SCRIPT
from regard.page.bundle import bundle

PAGE = "page.html"
WORKER = "worker.js"
# a page from disk can load no file: its worker is a blob, and the engine's module is in an address
POLICY = (
    "default-src 'none'; script-src {script} 'wasm-unsafe-eval' data:; worker-src blob:; style-src {style}; "
    "img-src data:; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
    "trusted-types worker"
)
SERVED = re.compile(r'<link rel="stylesheet" [^>]*>|<script type="module" [^>]*></script>')
META = re.compile(r'(?<=<meta http-equiv="Content-Security-Policy" content=")[^"]*')


def one_file_page(folder: Path) -> str:
    """The page of an exported folder, with its files as base64 of gzip."""
    modules = {path.name: path.read_text("utf-8") for path in folder.glob("*.js") if path.name != SCRIPT}
    code, style = bundle(modules, "page.js"), (folder / "page.css").read_text("utf-8")
    names = json.loads((folder / "config.json").read_text("utf-8"))["files"]
    files = {name: (folder / name).read_bytes() for name in ("config.json", SCRIPT, *names)}
    files[WORKER] = worker_script(modules).encode()
    held = "\n".join(_held(name, content) for name, content in files.items())
    page = (folder / "index.html").read_text("utf-8")
    page = META.sub(POLICY.format(script=_hash(code), style=_hash(style)), page)
    page = SERVED.sub("", page).replace("</head>", f"<style>{style}</style>\n</head>")
    return page.replace("</body>", f"{held}\n<script>{code}</script>\n</body>")


def worker_script(modules: dict[str, str]) -> str:
    """The worker as one script."""
    return bundle(modules, "engine.js", esm=True).replace(
        "export default $engine.default;", "$engine.default((address) => import(address));"
    )


def _held(name: str, content: bytes) -> str:
    packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
    return f'<script type="application/octet-stream" data-file="{name}">{packed}</script>'


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
