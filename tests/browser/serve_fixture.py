"""A server of the page with a made-up Look, to work on the page: `python serve_fixture.py KIND [PORT]`.

It answers as regard's own does, and reads the page's files at each request.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

sys.path.insert(0, str(Path(__file__).parent))
from fixture import Fixture, npy

from regard.page.assets import SCRIPT_FILE, SERVED_POLICY
from regard.page.bundle import bundle

STATIC = Path(__file__).parents[2] / "src" / "regard" / "page" / "static"
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}


class Handler(BaseHTTPRequestHandler):
    """GET of files and resources, POST of a new Look, which is the same one with another seed."""

    looks: dict[str, Fixture]
    kind: str

    def do_GET(self) -> None:
        path = unquote(self.path.partition("?")[0]).lstrip("/") or "index.html"
        if path == "api/look":
            self._json({"id": "0", "summary": self.looks["0"].summary})
        elif path.startswith("api/look/"):
            self._resource(*path.removeprefix("api/look/").split("/", 1))
        elif path == SCRIPT_FILE:
            modules = {file.relative_to(STATIC).as_posix(): file.read_text() for file in STATIC.rglob("*.js")}
            self._send(bundle(modules, "page.js").encode(), "text/javascript")
        elif (STATIC / path).is_file():
            self._send((STATIC / path).read_bytes(), TYPES[Path(path).suffix])
        else:
            self._json({"error": "no such file"}, 404)

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/stream":
            self._stream()
            return
        look = Fixture(self.kind, seed=len(self.looks))
        look.summary["changes"] |= request.get("changes") or {}
        look.summary["text"] = request["text"]
        look.summary["answer"]["forced"] = len(request.get("prefix_ids") or [])
        self.looks[str(len(self.looks))] = look
        self._json({"id": str(len(self.looks) - 1), "summary": look.summary})

    def _stream(self) -> None:
        self.send_response(200)
        self.end_headers()
        for token in self.looks["0"].tokens["written"]:
            self.wfile.write(json.dumps({"token": token, "log_prob": -0.1}).encode() + b"\n")
            self.wfile.flush()
            time.sleep(0.1)

    def _resource(self, number: str, path: str) -> None:
        look = self.looks[number]
        if path in look.documents:
            self._json(look.documents[path])
        elif path in look.arrays:
            self._send(npy(look.arrays[path]), "application/octet-stream")
        else:
            self._json({"error": f"no {path}"}, 404)

    def _json(self, value: object, status: int = 200) -> None:
        self._send(json.dumps(value).encode(), "application/json", status)

    def _send(self, content: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if kind.startswith("text") else kind)
        self.send_header("Content-Security-Policy", SERVED_POLICY)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing: errors show in the browser."""


if __name__ == "__main__":
    Handler.kind = sys.argv[1] if len(sys.argv) > 1 else "encoder_decoder"
    Handler.looks = {"0": Fixture(Handler.kind)}
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8765
    print(f"http://127.0.0.1:{port}/")
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
