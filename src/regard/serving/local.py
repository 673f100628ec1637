"""The server of `regard look`, for one user on this machine, based on Python's http.server.

Other users of the machine can reach its port. So every path starts with a token, which only the user who
started the server sees, and which also works through a forwarded port.

Pages of other sites in the same browser must not reach the server either. Each request must name this machine
in `Host` (another name means DNS rebinding) and come from the server's own page (`Origin` and
`Sec-Fetch-Site`, if the browser sends them). Requests that start work are a POST of JSON, which a form of
another site cannot send. Only the page itself may be opened by a link from elsewhere.
"""

import json
import re
import secrets
import threading
import webbrowser
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain, islice
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from regard import console
from regard.errors import RegardError, UserError
from regard.page.assets import SERVED_POLICY, assets
from regard.serving.browser_ticket import Ticket
from regard.serving.look_store import HttpError, LookStore
from regard.verbs.look import Looker, LookRequest
from regard.verbs.views.files import json_text, npy_bytes

HOST = "127.0.0.1"
HOST_NAMES = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")  # any port: it may be forwarded
HINT = "open the address that regard look printed"  # a hint must not have it: anyone may ask
MAX_BODY_BYTES = 1 << 18
TIMEOUT = 30  # seconds for a client to send its request
HEADERS = {
    "Content-Security-Policy": SERVED_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
TICKET_PATH = "/open/"
ROUTE = re.compile(r"/api/look/([^/]+)/(.+)")


def serve(looker: Looker, request: LookRequest | None = None, *, port: int = 0, browser: bool = True) -> None:
    """Serve looks until Ctrl-C; the first is that of `request`, if given.

    Raises:
        UserError: the port is taken. DataError: the first request is invalid.
    """
    looks = LookStore(looker, request)
    looks.first()  # errors appear here and not on an empty page
    try:
        server = LocalServer(looks, port)
    except OSError as error:
        raise UserError(f"port {port}: {error.strerror}", "--port 0 takes a free one") from None
    with server:
        console.note(f"the page is at {server.url}; Ctrl-C stops the server")
        if browser:
            threading.Thread(target=webbrowser.open, args=(server.url_for_browser,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.serve_forever()


class LocalServer(ThreadingHTTPServer):
    """Serves the looks of one model on a local port; port 0 takes a free one."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, looks: LookStore, port: int = 0) -> None:
        self.looks = looks
        self.token = secrets.token_urlsafe(16)
        self.ticket = Ticket()
        super().__init__((HOST, port), Handler)

    @property
    def port(self) -> int:
        return self.server_address[1]

    @property
    def url(self) -> str:
        """The page's address with its token; secret."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    @property
    def url_for_browser(self) -> str:
        """An address that redirects to the page once; see browser_ticket.py."""
        return f"http://{HOST}:{self.port}{TICKET_PATH}{self.ticket.name}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: `Handler` reports the errors of answers, and the rest is closed connections."""


class Handler(BaseHTTPRequestHandler):
    """Handles the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "regard", ""
    timeout = TIMEOUT
    disable_nagle_algorithm = True  # otherwise 40 ms pass between headers and content

    @property
    def _looks_server(self) -> LocalServer:
        assert isinstance(self.server, LocalServer)
        return self.server

    def do_GET(self) -> None:
        self._respond(self._get)

    def do_HEAD(self) -> None:
        self._respond(self._get)

    def do_POST(self) -> None:
        self._respond(self._post)

    def _get(self) -> None:
        path = unquote(self._path)
        if path == "/api/look":
            self._send_json(self._looks_server.looks.first())
            return
        if found := ROUTE.fullmatch(path):
            self._send_resource(self._looks_server.looks.get(*found.groups()))
            return
        file = assets().get("index.html" if path == "/" else path.removeprefix("/"))
        if file is None:
            raise HttpError(HTTPStatus.NOT_FOUND, f"there is nothing at {path[:100]}", HINT)
        self._send(HTTPStatus.OK, file.content, file.content_type)

    def _post(self) -> None:
        path = self._path
        if path not in ("/api/look", "/api/stream"):
            raise HttpError(
                HTTPStatus.NOT_FOUND, f"there is no POST {path[:100]}", "POST to /api/look or /api/stream"
            )
        body = self._body()
        if path == "/api/look":
            self._send_json(self._looks_server.looks.create(body))
            return
        tokens = self._looks_server.looks.stream(body)
        first = list(islice(tokens, 1))  # an invalid request is refused before the headers are sent
        self._stream(chain(first, tokens))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Errors of http.server itself, such as unknown methods, as JSON too."""
        status = HTTPStatus(code)
        self._send_error_json(status, message or status.phrase, HINT)

    def _body(self) -> Any:
        """The JSON value in the request body.

        Raises:
            HttpError: the body is missing, too large or not JSON.
        """
        content_type = self.headers.get_content_type() if self.headers["Content-Type"] else ""
        if content_type != "application/json":
            raise HttpError(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body is not application/json", "send JSON"
            )
        length = self.headers["Content-Length"]
        if length is None or not length.isdecimal():
            raise HttpError(
                HTTPStatus.LENGTH_REQUIRED, "the length of the body is missing", "send Content-Length"
            )
        if len(length) > 9 or int(length) > MAX_BODY_BYTES:
            raise HttpError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body has more than {MAX_BODY_BYTES:,} bytes",
                "shorten the text",
            )
        content = self.rfile.read(int(length))
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise HttpError(
                HTTPStatus.BAD_REQUEST, "the body is not JSON", "send an object with a text"
            ) from None

    def _respond(self, answer: Callable[[], None]) -> None:
        """Check a request and call `answer`; errors are sent as JSON with a hint."""
        self._path = ""
        try:
            self._check_host_and_token()
            if self._redirect_to_page():
                return
            self._check_origin()
            answer()
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        except HttpError as error:
            self._send_error_json(error.status, error.message, error.hint)
        except RegardError as error:
            self._send_error_json(HTTPStatus.BAD_REQUEST, error.message, error.hint)
        except Exception as error:  # noqa: BLE001 (nothing above handles it)
            console.warn(f"{self.command} {self._path[:100]}: {type(error).__name__}: {error}")
            self._send_error_json(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"the model failed: {type(error).__name__}",
                "see the terminal in which regard look runs",
            )

    def _check_host_and_token(self) -> None:
        """Refuse requests with another host name or without the token, and set the path after the token."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not HOST_NAMES.fullmatch(hosts[0]):
            raise HttpError(HTTPStatus.FORBIDDEN, "the Host header does not name this machine", HINT)
        try:
            path = urlsplit(self.path).path
        except ValueError:
            raise HttpError(HTTPStatus.NOT_FOUND, "the address is not valid", HINT) from None
        ticket = path.removeprefix(TICKET_PATH)
        if ticket != path and self._looks_server.ticket.redeem(ticket, self.client_address):
            path = f"/{self._looks_server.token}"
        given, slash, rest = path.removeprefix("/").partition("/")
        if not secrets.compare_digest(given.encode(), self._looks_server.token.encode()):
            raise HttpError(HTTPStatus.FORBIDDEN, "the token in the address is missing or wrong", HINT)
        self._path = slash + rest

    def _redirect_to_page(self) -> bool:
        """Redirect an address without a path, such as a ticket's, to the page; True if it was one."""
        if self._path or self.command != "GET":
            return False
        headers = {"Location": f"/{self._looks_server.token}/", "Content-Length": "0"}
        self._head(HTTPStatus.SEE_OTHER, "text/plain", headers)
        return True

    def _check_origin(self) -> None:
        """Refuse requests from pages of other sites, but allow links to the page."""
        if self._path == "/" and self.headers.get("Sec-Fetch-Dest") == "document":
            return
        origin = self.headers["Origin"]
        if origin is not None and origin != f"http://{self.headers['Host']}":
            raise HttpError(HTTPStatus.FORBIDDEN, "the request comes from another site", HINT)
        if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise HttpError(HTTPStatus.FORBIDDEN, "the request comes from another site", HINT)

    def _send_error_json(self, status: HTTPStatus, message: str, hint: str) -> None:
        self.close_connection = True  # the rest of the body is not read
        self._send(status, _json_bytes({"error": message, "hint": hint}), "application/json")

    def _send_json(self, value: Any) -> None:
        self._send(HTTPStatus.OK, _json_bytes(value), "application/json")

    def _send_resource(self, resource: Any) -> None:
        if isinstance(resource, np.ndarray):
            self._send(HTTPStatus.OK, npy_bytes(resource), "application/octet-stream")
        else:
            self._send_json(resource)

    def _send(self, status: HTTPStatus, content: bytes, content_type: str) -> None:
        self._head(status, content_type, {"Content-Length": str(len(content))})
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stream(self, tokens: Iterable[Mapping[str, Any]]) -> None:
        """Send a line of JSON for each token, each as its own chunk, as they come."""
        self._head(HTTPStatus.OK, "application/x-ndjson", {"Transfer-Encoding": "chunked"})
        try:
            for each in tokens:
                self._chunk(_json_bytes(each) + b"\n")
        except RegardError as error:
            self._chunk(_json_bytes({"error": error.message, "hint": error.hint}) + b"\n")
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 (the headers are sent: the error must be in the body)
            console.warn(f"{self._path[:100]}: {type(error).__name__}: {error}")
            self._chunk(_json_bytes({"error": f"the model failed: {type(error).__name__}"}) + b"\n")
        self._chunk(b"")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%X\r\n%b\r\n" % (len(content), content))
        self.wfile.flush()

    def _head(self, status: HTTPStatus, content_type: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": content_type, **more}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing for each file of the page."""


def _json_bytes(value: Any) -> bytes:
    return json_text(value).encode("utf-8", "surrogatepass")
