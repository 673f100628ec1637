"""Running the server: its socket, its signals, its end."""

import asyncio
import errno
import logging
import signal
import socket
import time
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import uvicorn

from regard import console
from regard.errors import UserError
from regard.serving.access_log import AccessLog, to_stderr
from regard.serving.app import App
from regard.serving.dialects.deepl import DeepLDialect
from regard.serving.dialects.dialect import Dialect
from regard.serving.dialects.libretranslate import LibreTranslateDialect
from regard.serving.dialects.look_pages import LookPages
from regard.serving.dialects.openai import OpenAIDialect
from regard.serving.dialects.operations import OperationsDialect
from regard.serving.dialects.own import OwnDialect
from regard.serving.dialects.pages import Pages
from regard.serving.engine import load_engine
from regard.serving.glossaries import GlossaryStore
from regard.serving.http_error import HttpProblem
from regard.serving.http_protocol import protocol_of
from regard.serving.keys import ApiKeys, read_keys
from regard.serving.limits import DEFAULT_LIMITS, ServerLimits
from regard.serving.looks import Looks
from regard.serving.metrics import Metrics
from regard.serving.models import ModelStore, named_paths
from regard.serving.origins import allowed_origins
from regard.serving.service import Service
from regard.verbs.shared.runtime import DEFAULT_DECODING_RUNTIME, DecodingRuntime, Runtime

QUIET = 0.2  # seconds without a request that must pass before the server ends
PAUSE = 0.02  # seconds between two looks at whether all requests are answered
SHUTDOWN_SECONDS = 5  # in which open connections must end, after the last answer


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """What `regard serve` is called with."""

    models: list[str] = field(default_factory=list)
    host: str = "127.0.0.1"
    port: int = 8000
    api_keys: Path | None = None
    open: bool = False
    allow_origins: list[str] = field(default_factory=list)  # pages of other sites that may ask
    requests_per_minute: int | None = None
    lazy: bool = False
    memory_mb: int | None = None
    access_log: bool = True
    log_texts: bool = False
    glossaries: Path | None = None  # a folder; None: they are in memory
    look: bool | None = None  # None: on a loopback address, without keys
    limits: ServerLimits = DEFAULT_LIMITS
    workers: int | None = None  # None: one for each core
    runtime: DecodingRuntime = DEFAULT_DECODING_RUNTIME


def service_of(options: ServeOptions) -> Service:
    """The service with these options; no model is loaded yet.

    Raises:
        UserError: the server would be open to others without keys, or a name or a file is wrong.
    """
    public = not _is_loopback(options.host)
    if public and options.api_keys is None and not options.open:
        raise UserError(
            f"--host {options.host} lets other machines use this server",
            "--api-keys FILE lets only those in who have a key; --open lets everybody in",
        )
    keys = read_keys(options.api_keys) if options.api_keys else []
    metrics = Metrics()
    models = ModelStore(
        named_paths(options.models),
        partial(load_engine, workers=options.workers, runtime=options.runtime, limits=options.limits.queue),
        metrics=metrics,
        budget_bytes=None if options.memory_mb is None else options.memory_mb << 20,
    )
    return Service(
        models=models,
        limits=options.limits,
        keys=ApiKeys(keys, options.requests_per_minute),
        metrics=metrics,
        log=to_stderr(texts=options.log_texts) if options.access_log else AccessLog(),
        looks=_looks(options, public=public),
        glossaries=GlossaryStore(options.glossaries),
        public=public,
        origins=allowed_origins(options.allow_origins, has_keys=bool(keys)),
    )


def dialects(glossaries: GlossaryStore) -> list[Dialect]:
    """All dialects of the server."""
    translating = [LibreTranslateDialect(), DeepLDialect(glossaries)]
    found = [OwnDialect(), OpenAIDialect(), *translating, OperationsDialect()]
    return [*found, Pages(found), LookPages()]


class ModelServer(uvicorn.Server):
    """uvicorn's server, which answers all accepted requests before it ends."""

    def __init__(self, service: Service, sockets: list[socket.socket]) -> None:
        limits = service.limits
        app = App(service, dialects(service.glossaries))
        config = uvicorn.Config(
            app,
            http=protocol_of(limits, app.error_body),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=limits.keep_alive_seconds,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            h11_max_incomplete_event_size=limits.header_bytes,
        )
        super().__init__(config)
        self.service, self.sockets = service, sockets
        self.note = ""  # printed when requests are answered
        self.lost = False  # True if the server ends before it has answered
        self._tasks: set[asyncio.Task[None]] = set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.note:
            console.note(self.note)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle signals in `run_until_stopped`."""
        yield

    async def run_until_stopped(self) -> None:
        """Serve until `stop` is called, and answer what is accepted."""
        self.service.loaded = True
        try:
            await self.serve(sockets=self.sockets)
        finally:
            if self.service.looks is not None:
                self.service.looks.close()
            self.service.models.abort()

    async def load_models(self) -> None:
        """Load all models.

        Raises:
            RegardError: one cannot be loaded.
        """
        for slot in self.service.models.slots.values():
            try:
                await self.service.models.engine(slot)
            except HttpProblem as problem:
                raise problem.__cause__ or problem from None

    def handle_signals(self) -> None:
        """SIGTERM and Ctrl-C stop the server, SIGHUP loads the models again."""
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # Windows
            loop.add_signal_handler(signal.SIGTERM, self.stop)
            loop.add_signal_handler(signal.SIGINT, self.stop)
            loop.add_signal_handler(signal.SIGHUP, self.reload)

    def reload(self) -> None:
        """Load the models again."""
        self._start(self.service.models.reload())

    def stop(self) -> None:
        """Begin to end; called again, end at once."""
        if self.service.draining:
            self.force_exit = self.should_exit = self.lost = True
            return
        self.service.draining = True
        self._start(self._drain())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _drain(self) -> None:
        ends = time.monotonic() + self.service.limits.drain_seconds
        quiet_since = time.monotonic()
        while (now := time.monotonic()) < ends:
            if self.service.in_flight or self.service.models.busy:
                quiet_since = now
            elif now - quiet_since >= QUIET:  # seen now, however long the loop was held up
                break
            await asyncio.sleep(PAUSE)
        if self.service.models.busy:
            self.lost = True
            await asyncio.to_thread(self.service.models.abort)
            await asyncio.sleep(QUIET)  # for the refusals to be sent
        self.should_exit = True


def serve(options: ServeOptions) -> None:
    """Serve until SIGTERM or Ctrl-C.

    Raises:
        UserError: the options are wrong, a model cannot be loaded, or the port is taken.
    """
    service = service_of(options)
    sockets = [bound(options.host, options.port)]
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    server = ModelServer(service, sockets)
    port = sockets[0].getsockname()[1]
    host = f"[{options.host}]" if ":" in options.host else options.host
    note = f"serving {', '.join(service.models.slots)} at http://{host}:{port}; Ctrl-C stops the server"
    try:
        with closing(sockets[0]):
            asyncio.run(_run(server, options.lazy, note))
    finally:
        service.models.abort()
    if server.lost:
        console.warn("the server ended before it had answered all accepted requests")
    else:
        console.note("all accepted requests are answered")


async def _run(server: ModelServer, lazy: bool, note: str) -> None:
    server.handle_signals()
    if not lazy:
        await server.load_models()
    server.note = note
    await server.run_until_stopped()


def bound(host: str, port: int) -> socket.socket:
    """A listening socket.

    Raises:
        UserError: the address is taken, or not one of this machine.
    """
    try:
        [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        with ExitStack() as on_failure:
            bound = on_failure.enter_context(socket.socket(family, kind, protocol))
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
            bound.bind(address)
            on_failure.pop_all()
    except OSError as error:
        is_taken = error.errno in (errno.EADDRINUSE, errno.EACCES)
        hint = "--port 0 takes a free one" if is_taken else "--host names an address of this machine"
        raise UserError(f"{host}:{port}: {error.strerror or error}", hint) from None
    return bound


def _looks(options: ServeOptions, *, public: bool) -> Looks | None:
    """The looks, if the server has them: by default on a loopback address, without keys.

    Raises:
        UserError: a server with keys should have them.
    """
    if options.look and options.api_keys is not None:
        raise UserError("--look with --api-keys: the page cannot send a key", "leave out one of the two")
    wanted = options.look if options.look is not None else not public and options.api_keys is None
    return (
        Looks(Runtime(device=options.runtime.device, threads=options.runtime.threads or 1))
        if wanted
        else None
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
