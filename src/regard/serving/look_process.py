"""A process with the looks of one model, to which `regard serve` passes requests on.

A look computes for seconds and holds many arrays, so it is not computed in the process that reads requests.
The process runs the server of `regard look`.
"""

import http.client
import multiprocessing
import os
import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from regard.errors import RegardError, RunError
from regard.parent_process import end_with
from regard.serving.local import HOST, LocalServer
from regard.serving.look_store import LookStore
from regard.serving.workers import PROCESSES
from regard.verbs.look import Looker
from regard.verbs.shared.runtime import Runtime

START_SECONDS = 120.0


class LookProcess:
    """The server of the looks of one model, in a process of its own.

    Raises:
        RegardError: there are no looks for this kind of model, or it cannot be loaded.
    """

    def __init__(self, path: Path | None, runtime: Runtime) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would have the server's connections
        own, its = context.Pipe(duplex=False)
        arguments = (its, path, runtime, os.getpid())
        self._process = context.Process(target=_serve, args=arguments, name="regard-looks", daemon=True)
        try:
            with PROCESSES:
                self._process.start()
            its.close()
            self._server = _started(own)
        except BaseException:
            self.close()
            raise
        finally:
            own.close()

    @property
    def alive(self) -> bool:
        return self._process.is_alive()

    def open(self, method: str, path: str, body: bytes, seconds: float) -> http.client.HTTPResponse:
        """The response to a request, whose body is not read yet.

        Raises:
            OSError, http.client.HTTPException: the process has ended, or took too long.
        """
        connection = http.client.HTTPConnection(HOST, self._server.port, timeout=seconds)
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(
            method, f"/{self._server.token}{path}", body or None, {**headers, "Connection": "close"}
        )
        return connection.getresponse()

    def close(self) -> None:
        """End the process at once."""
        if self._process.pid is not None:
            self._process.kill()
            with PROCESSES:
                self._process.join()


@dataclass(frozen=True)
class _Started:
    port: int
    token: str


@dataclass(frozen=True)
class _Failed:
    message: str
    hint: str


def _started(connection: Connection) -> _Started:
    """What the process says when it has loaded its model.

    Raises:
        RegardError: it could not.
    """
    try:
        said = connection.recv() if connection.poll(START_SECONDS) else None
    except EOFError:
        said = None
    if isinstance(said, _Started):
        return said
    if isinstance(said, _Failed):
        raise RegardError(said.message, said.hint)
    raise RunError("the process that computes looks did not start", "see the server's log")


def _serve(connection: Connection, path: Path | None, runtime: Runtime, server: int) -> None:
    end_with(server)
    for each in (signal.SIGINT, signal.SIGHUP):  # those are for the server; SIGTERM ends this process at once
        signal.signal(each, signal.SIG_IGN)
    try:
        looks = LocalServer(LookStore(Looker(path, runtime=runtime)))
    except RegardError as error:
        connection.send(_Failed(error.message, error.hint))
        return
    connection.send(_Started(looks.port, looks.token))
    connection.close()
    looks.serve_forever()
