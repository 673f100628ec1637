"""Servers of small models, each on a port of its own in this process."""

import asyncio
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing import Pipe

import pytest

from regard.serving.access_log import AccessLog
from regard.serving.run import ModelServer, ServeOptions, bound, service_of
from tests.conftest import CHAT
from tests.whisper_folder import whisper


class Lines:
    """A stream that keeps its lines."""

    def __init__(self):
        self.lines = []

    def write(self, text):
        self.lines += text.splitlines()

    def flush(self):
        pass

    def wait_for(self, text):
        """The first line with this text: an answer arrives before its line is written."""
        for _ in range(1000):
            if found := [line for line in self.lines if text in line]:
                return found[0]
            time.sleep(0.01)
        raise AssertionError(f"no line has {text!r}: {self.lines}")


class Running:
    """A server in a thread."""

    def __init__(self, options):
        self.service = service_of(options)
        self.log = Lines()
        self.service.log = AccessLog(self.log, texts=options.log_texts)
        self.socket = bound("127.0.0.1", 0)
        self.port = self.socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = ModelServer(self.service, [self.socket])
        self.loop, self.ending = None, False
        self.thread = threading.Thread(target=self._run, args=(options.lazy,), daemon=True)

    def _run(self, lazy):
        async def main():
            self.loop = asyncio.get_running_loop()
            if not lazy:
                await self.server.load_models()
            await self.server.run_until_stopped()

        asyncio.run(main())

    def __enter__(self):
        self.thread.start()
        while not self.server.started:
            assert self.thread.is_alive()
            time.sleep(0.01)
        return self

    def stop(self):
        self.loop.call_soon_threadsafe(self.server.stop)

    def begin_to_end(self):
        if self.thread.is_alive() and not self.ending:
            self.ending = True
            self.stop()

    def __exit__(self, *error):
        self.begin_to_end()
        self.thread.join(120)
        assert not self.thread.is_alive()


@contextmanager
def servers():
    """Starts a server with these models (name -> folder) and options; stops all of them at the end, together.

    Without `workers` a thread of this process answers.
    """
    with ExitStack() as stack:
        running = []

        def started(models=None, *, limits=None, **options):
            given = ServeOptions(
                models=[f"{name}={folder}" for name, folder in (models or {}).items()],
                port=0,
                **{"workers": 0, **options},
            )
            if limits:
                given = replace(given, limits=replace(given.limits, **limits))
            running.append(stack.enter_context(Running(given)))
            return running[-1]

        yield started
        for server in running:
            server.begin_to_end()


@pytest.fixture(scope="module")
def serving():
    """`servers` of a module: each has threads, and a model in memory."""
    with servers() as started:
        yield started


@pytest.fixture(scope="session")
def lasting():
    """`servers` of all modules."""
    with servers() as started:
        yield started


@pytest.fixture(scope="session")
def included(lasting):
    """A server of the included model."""
    return lasting(workers=2)


@pytest.fixture(scope="session")
def speech_folder(tmp_path_factory):
    """A small speech-to-text model, whose weights are random."""
    folder = tmp_path_factory.mktemp("whisper")
    whisper(folder, likely_times=2.0)
    return folder


@pytest.fixture(scope="session")
def transcribing(lasting, speech_folder):
    """A server of it."""
    return lasting({"whisper": speech_folder}, workers=1, limits={"recording_seconds": 30.0}, log_texts=True)


@pytest.fixture(scope="session")
def generating(lasting, decoder_folder):
    """A server of a small language model."""
    return lasting({"chars": decoder_folder()})


@pytest.fixture(scope="session")
def talking(lasting, decoder_folder):
    """A server of a small chat model."""
    return lasting({"chat": decoder_folder("bytes", chat=CHAT)}, workers=2)


@pytest.fixture
def pipe():
    """The two ends of a pipe to a worker."""
    own, its = Pipe()
    yield own, its
    own.close()
    its.close()
