"""A stand-in for S3 (moto's server) on this machine, and a proxy before it that fails and delays requests."""

import http.client
import importlib.util
import os
import random
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NEEDED = ("moto", "s3fs")
HERE = "127.0.0.1"
STARTS, SLOW = 60.0, 0.2  # seconds
NOT_FORWARDED = {"connection", "transfer-encoding", "content-length"}
FAULTS = ("closed before", "closed after", "500", "503")  # after: the store has carried it out


def missing() -> str:
    """The package that a stand-in needs and that is not installed; empty if there is none."""
    return next((name for name in NEEDED if importlib.util.find_spec(name) is None), "")


class ObjectStore:
    """The stand-in, for the commands of this process and its children.

    `failing`: the share of requests that fail; as many are slow. Of those that fail the store carries out a
    quarter, but the answer is lost.
    """

    def __init__(self, *, failing: float = 0.0) -> None:
        self.failing = failing
        self.proxy: FaultyProxy | None = None

    def __enter__(self) -> "ObjectStore":
        """Starts it, with a bucket called `bucket`."""
        port = _free_port()
        command = [sys.executable, "-m", "moto.server", "-p", str(port)]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(command, **quiet)
        _wait_for(port)
        connection = http.client.HTTPConnection(HERE, port)
        connection.request("PUT", "/bucket")
        assert connection.getresponse().status == 200
        if self.failing:
            self.proxy = FaultyProxy(port, self.failing)
            port = self.proxy.start()
        os.environ |= {
            "AWS_ENDPOINT_URL": f"http://{HERE}:{port}",
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
            "no_proxy": HERE,
        }
        return self

    def __exit__(self, *error: object) -> None:
        if self.proxy:
            self.proxy.stop()
        self._process.kill()
        self._process.wait()


class FaultyProxy:
    """Passes requests on to a port; a share of them fails, and as many are slow."""

    def __init__(self, port: int, failing: float, seed: int = 1) -> None:
        self.calls = self.failed = self.slow = 0
        draw, lock, proxy = random.Random(seed), threading.Lock(), self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                with lock:
                    dice, fault = draw.random(), draw.choice(FAULTS)
                    proxy.calls += 1
                    proxy.failed += dice < failing
                    proxy.slow += failing <= dice < 2 * failing
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if dice >= failing:
                    if dice < 2 * failing:
                        time.sleep(SLOW)
                    self._send(*self._forwarded(body))
                elif fault in ("500", "503"):
                    self._send(int(fault), [], b"")
                else:
                    if fault == "closed after":
                        self._forwarded(body)
                    self.close_connection = True

            def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
                connection = http.client.HTTPConnection(HERE, port)
                headers = {
                    name: value for name, value in self.headers.items() if name.lower() != "connection"
                }
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                found = answer.status, answer.getheaders(), answer.read()
                connection.close()
                return found

            def _send(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
                self.send_response_only(status)
                length = str(len(content))
                for name, value in headers:
                    if name.lower() == "content-length" and self.command == "HEAD":
                        length = value
                    if name.lower() not in NOT_FORWARDED:
                        self.send_header(name, value)
                self.send_header("Content-Length", length)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            def handle(self) -> None:
                with suppress(ConnectionError):  # of a client that was killed
                    super().handle()

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _answer  # noqa: N815

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer((HERE, 0), Handler)
        self._server.daemon_threads = True

    def start(self) -> int:
        """Returns the port."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self._server.server_address[1]

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((HERE, 0))
        return found.getsockname()[1]


def _wait_for(port: int) -> None:
    ends = time.monotonic() + STARTS
    while True:
        with suppress(ConnectionError):
            socket.create_connection((HERE, port)).close()
            return
        assert time.monotonic() < ends, "the stand-in for S3 did not start"
        time.sleep(0.1)
