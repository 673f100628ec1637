"""The server of `regard look`: this machine only, one user, Python's own http.server.

Other users of the machine reach its port too. So all that it has stands below a token in its address, which
only who started it is told, and which a forwarded port carries along.

A page of another site that the same browser has open must not reach it either. Each request has to name this
machine in `Host` (another name means a rebound DNS entry) and to come from its own page (`Origin` and
`Sec-Fetch-Site`, where the browser says them), and what makes work is a POST of JSON, which no foreign form
can send. Only the page itself may be opened from elsewhere: by a link in a terminal or a mail.
"""

import json
import re
import secrets
import threading
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from regard import console
from regard.errors import RegardError, UserError
from regard.page.assets import SERVED_POLICY, assets
from regard.serving.browser_ticket import Ticket
from regard.serving.look_store import LookStore, Refused
from regard.verbs.look import Looker, Request
from regard.verbs.views.files import json_text, npy_bytes

HOST = "127.0.0.1"
NAMES = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")  # a forwarded port may be any
ADDRESS = "open the address that regard look tells"  # which no error may tell: a stranger may have asked
MOST_BYTES = 1 << 18  # of a request's body
PATIENCE = 30  # seconds that a client may take to send its request
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
OPEN = "/open/"
ROUTE = re.compile(r"/api/look/([^/]+)/(.+)")


class LocalServer(ThreadingHTTPServer):
    """Shows the looks of one model on a port of this machine; 0 takes a free one."""

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
        """The page's address, for its user alone."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    @property
    def url_for_browser(self) -> str:
        """An address that leads to the page once; see opening.py."""
        return f"http://{HOST}:{self.port}/open/{self.ticket.name}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no failure of ours."""


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "regard", ""
    timeout = PATIENCE
    disable_nagle_algorithm = True  # or each answer waits 40 ms between its headers and its content

    @property
    def _own(self) -> LocalServer:
        assert isinstance(self.server, LocalServer)
        return self.server

    def do_GET(self) -> None:
        self._answered(self._get)

    def do_HEAD(self) -> None:
        self._answered(self._get)

    def do_POST(self) -> None:
        self._answered(self._post)

    def _get(self) -> None:
        path = unquote(self._path)
        if path == "/api/look":
            self._json(self._own.looks.first())
            return
        if found := ROUTE.fullmatch(path):
            self._resource(self._own.looks.get(*found.groups()))
            return
        file = assets().get("index.html" if path == "/" else path.removeprefix("/"))
        if file is None:
            raise Refused(HTTPStatus.NOT_FOUND, f"there is nothing at {path[:100]}", ADDRESS)
        self._send(HTTPStatus.OK, file.content, file.content_type)

    def _post(self) -> None:
        path = self._path
        if path not in ("/api/look", "/api/stream"):
            raise Refused(
                HTTPStatus.NOT_FOUND, f"nothing is made at {path[:100]}", "POST to /api/look or /api/stream"
            )
        body = self._body()
        if path == "/api/look":
            self._json(self._own.looks.make(body))
            return
        said = self._own.looks.stream(body)
        first = next(said, None)  # what is wrong with the request shows here, before anything is sent
        self._stream(first, said)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What the library refuses by itself, such as methods that nobody knows, is told as all else."""
        status = HTTPStatus(code)
        self._fail(status, message or status.phrase, ADDRESS)

    def _body(self) -> Any:
        """The JSON of a request.

        Raises:
            Refused: it is none, or too much.
        """
        kind = self.headers.get_content_type() if self.headers["Content-Type"] else ""
        if kind != "application/json":
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "the body is not application/json", "send JSON")
        length = self.headers["Content-Length"]
        if length is None or not length.isdecimal():
            raise Refused(
                HTTPStatus.LENGTH_REQUIRED, "the length of the body is not said", "send Content-Length"
            )
        if len(length) > 9 or int(length) > MOST_BYTES:
            raise Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body has more than {MOST_BYTES:,} bytes",
                "shorten the text",
            )
        content = self.rfile.read(int(length))
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise Refused(
                HTTPStatus.BAD_REQUEST, "the body is no JSON", "send an object with a text"
            ) from None

    def _answered(self, answer: Any) -> None:
        """Whatever goes wrong is told as JSON, with what to do about it."""
        self._path = ""
        try:
            self._refuse_strangers()
            if self._is_led_to_the_page():
                return
            self._refuse_other_sites()
            answer()
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            self.close_connection = True
        except Refused as refused:
            self._fail(refused.status, refused.message, refused.hint)
        except RegardError as error:
            self._fail(HTTPStatus.BAD_REQUEST, error.message, error.hint)
        except Exception as error:  # noqa: BLE001 (the last place to tell it in)
            console.warn(f"{self.command} {self._path[:100]}: {type(error).__name__}: {error}")
            self._fail(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                f"the model failed: {type(error).__name__}",
                "the terminal in which regard look runs says more",
            )

    def _refuse_strangers(self) -> None:
        """Who does not name this machine, and who was not told the token; paths begin behind it."""
        hosts = self.headers.get_all("Host", [])
        if len(hosts) != 1 or not NAMES.fullmatch(hosts[0]):
            raise Refused(HTTPStatus.FORBIDDEN, "this host has another name", ADDRESS)
        try:
            path = urlsplit(self.path).path
        except ValueError:
            raise Refused(HTTPStatus.NOT_FOUND, "that is no address", ADDRESS) from None
        if path.startswith(OPEN) and self._own.ticket.taken(path.removeprefix(OPEN), self.client_address):
            path = f"/{self._own.token}"
        given, slash, rest = path.removeprefix("/").partition("/")
        if not secrets.compare_digest(given.encode(), self._own.token.encode()):
            raise Refused(HTTPStatus.FORBIDDEN, "the token in the address is missing or another one", ADDRESS)
        self._path = slash + rest

    def _is_led_to_the_page(self) -> bool:
        """Whether this is an address before the page's own, such as a ticket's, and was answered so."""
        if self._path or self.command != "GET":
            return False
        place = {"Location": f"/{self._own.token}/", "Content-Length": "0"}
        self._head(HTTPStatus.SEE_OTHER, "text/plain", place)
        return True

    def _refuse_other_sites(self) -> None:
        """Requests of another site's page. A link that somebody follows to the page is none."""
        if self._path == "/" and self.headers.get("Sec-Fetch-Dest") == "document":
            return
        origin = self.headers["Origin"]
        if origin is not None and origin != f"http://{self.headers['Host']}":
            raise Refused(HTTPStatus.FORBIDDEN, "another site asks", ADDRESS)
        if self.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            raise Refused(HTTPStatus.FORBIDDEN, "another site asks", ADDRESS)

    def _fail(self, status: HTTPStatus, message: str, hint: str) -> None:
        self.close_connection = True  # what is left of the body is not read
        self._send(status, _json_bytes({"error": message, "hint": hint}), "application/json")

    def _json(self, value: Any) -> None:
        self._send(HTTPStatus.OK, _json_bytes(value), "application/json")

    def _resource(self, found: Any) -> None:
        if isinstance(found, np.ndarray):
            self._send(HTTPStatus.OK, npy_bytes(found), "application/octet-stream")
        else:
            self._json(found)

    def _send(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self._head(status, kind, {"Content-Length": str(len(content))})
        if self.command != "HEAD":
            self.wfile.write(content)

    def _stream(self, first: Mapping[str, Any] | None, others: Iterator[Mapping[str, Any]]) -> None:
        """A line of JSON for each token, each in a chunk of its own, as it comes."""
        self._head(HTTPStatus.OK, "application/x-ndjson", {"Transfer-Encoding": "chunked"})
        try:
            if first is not None:
                self._chunk(_json_bytes(first) + b"\n")
                for each in others:
                    self._chunk(_json_bytes(each) + b"\n")
        except RegardError as error:
            self._chunk(_json_bytes({"error": error.message, "hint": error.hint}) + b"\n")
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 (the answer has begun: its end must tell)
            console.warn(f"{self._path[:100]}: {type(error).__name__}: {error}")
            self._chunk(_json_bytes({"error": f"the model failed: {type(error).__name__}"}) + b"\n")
        self._chunk(b"")

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(b"%X\r\n%b\r\n" % (len(content), content))
        self.wfile.flush()

    def _head(self, status: HTTPStatus, kind: str, more: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, **more}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nobody wants a line for each file of the page."""


def _json_bytes(value: Any) -> bytes:
    return json_text(value).encode("utf-8", "surrogatepass")


def serve(looker: Looker, request: Request | None = None, *, port: int = 0, browser: bool = True) -> None:
    """Show looks until Ctrl-C; the first is that of `request`, if there is one.

    Raises:
        UserError: the port is taken. DataError: the first look cannot be had.
    """
    looks = LookStore(looker, request)
    looks.first()  # what is wrong with it is told here, and not by a page that shows nothing
    try:
        server = LocalServer(looks, port)
    except OSError as error:
        raise UserError(f"port {port}: {error.strerror}", "--port 0 takes a free one") from None
    with server:
        console.note(f"{server.url} shows it; Ctrl-C ends")
        if browser:
            threading.Thread(target=webbrowser.open, args=(server.url_for_browser,), daemon=True).start()
        with suppress(KeyboardInterrupt):
            server.serve_forever()
