"""Servers of small models, each on a port of its own in this process."""

import asyncio
import threading
import time
from contextlib import ExitStack
from dataclasses import replace

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
        self.loop = None
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

    def __exit__(self, *error):
        if self.thread.is_alive():
            self.stop()
            self.thread.join(120)
        assert not self.thread.is_alive()


@pytest.fixture(scope="session")
def serving():
    """Starts a server with these models (name -> folder) and options, stopped at the end.

    Without `workers` a thread of this process answers.
    """
    with ExitStack() as stack:

        def started(models=None, *, limits=None, **options):
            given = ServeOptions(
                models=[f"{name}={folder}" for name, folder in (models or {}).items()],
                port=0,
                **{"workers": 0, **options},
            )
            if limits:
                given = replace(given, limits=replace(given.limits, **limits))
            return stack.enter_context(Running(given))

        yield started


@pytest.fixture(scope="session")
def included(serving):
    """A server of the included model."""
    return serving(workers=2)


@pytest.fixture(scope="session")
def hearing_folder(tmp_path_factory):
    """A small speech-to-text model, whose weights are random."""
    folder = tmp_path_factory.mktemp("whisper")
    whisper(folder, likely_times=2.0)
    return folder


@pytest.fixture(scope="session")
def hearing(serving, hearing_folder):
    """A server of it."""
    return serving({"whisper": hearing_folder}, workers=1, limits={"recording_seconds": 30.0}, log_texts=True)


@pytest.fixture(scope="session")
def generating(serving, decoder_folder):
    """A server of a small language model."""
    return serving({"chars": decoder_folder()})


@pytest.fixture(scope="session")
def talking(serving, decoder_folder):
    """A server of a small chat model."""
    return serving({"chat": decoder_folder("bytes", chat=CHAT)}, workers=2)
