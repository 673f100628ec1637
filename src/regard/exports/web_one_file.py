"""An exported page and all that it loads as one HTML file, which opens from disk."""

import base64
import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path

from regard.exports.web_runtime import SCRIPT
from regard.page.assets import LIVE_POLICY, policy_of
from regard.page.bundle import bundle

PAGE = "page.html"
WORKER = "worker.js"
SERVED = re.compile(r'<link rel="stylesheet" [^>]*>|<script type="module" [^>]*></script>')
META = re.compile(r'(?<=<meta http-equiv="Content-Security-Policy" content=")[^"]*')


def one_file_page(folder: Path) -> str:
    """The page of an exported folder, with its files as base64 of gzip."""
    modules = {path.name: path.read_text("utf-8") for path in folder.glob("*.js") if path.name != SCRIPT}
    code, style = bundle(modules, "page.js"), (folder / "page.css").read_text("utf-8")
    names = json.loads((folder / "config.json").read_text("utf-8"))["files"]
    files = {name: (folder / name).read_bytes() for name in ("config.json", SCRIPT, *names)}
    files[WORKER] = worker_script(modules, "engine.js").encode()
    held = held_files(files)
    page = (folder / "index.html").read_text("utf-8")
    page = META.sub(policy_of(LIVE_POLICY, code, style), page)
    page = SERVED.sub("", page).replace("</head>", f"<style>{style}</style>\n</head>")
    return page.replace("</body>", f"{held}\n<script>{code}</script>\n</body>")


def worker_script(modules: dict[str, str], entry: str) -> str:
    """The worker as one script; the default of its `entry` gets a function that imports an address."""
    name = entry.removesuffix(".js")
    return bundle(modules, entry, esm=True).replace(
        f"export default ${name}.default;", f"${name}.default((address) => import(address));"
    )


def held_files(files: Mapping[str, bytes]) -> str:
    """Elements that hold these files."""
    return "\n".join(_held(name, content) for name, content in files.items())


def _held(name: str, content: bytes) -> str:
    packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
    return f'<script type="application/octet-stream" data-file="{name}">{packed}</script>'
