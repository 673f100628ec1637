"""Runs a chat template in another process, with limits of time and memory."""

import json
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from regard.data.chat_template import ChatTemplate, Message
from regard.errors import DataError, FolderError

PROGRAM = Path(__file__).with_name("template_process.py")
TIME_LIMIT = 10.0  # seconds for one conversation; templates of known models take milliseconds


class ChatRenderer:
    """Renders conversations with a chat template, in a process of its own.

    The process starts with the first conversation. It ends with `close`, or with the renderer. Several
    threads may call it; it renders one conversation at a time.

    Args:
        template: the template of a model folder.
        folder: the model folder, for error messages.
        seconds: the time that a conversation may take.
    """

    def __init__(self, template: ChatTemplate, folder: str, seconds: float = TIME_LIMIT) -> None:
        self._template, self._folder, self._seconds = template, folder, seconds
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[str], ThreadPoolExecutor] | None = None

    def render(self, messages: Sequence[Message]) -> str:
        """The text of a conversation, which ends where the answer begins.

        Raises:
            DataError: the template refuses these messages.
            FolderError: it fails.
        """
        variables = {
            **self._template.special_tokens,
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": True,
            "tools": None,
            "documents": None,
        }
        request = {
            "template": self._template.template,
            "variables": variables,
            # the process ends itself after this time, in case this one has died; ours comes first
            "seconds": 2 * self._seconds,
        }
        match self._request(request):
            case {"text": str(text)}:
                return text
            case {"refusal": str(reason)}:
                raise DataError(
                    f"the chat template refuses this conversation: {reason}", "change its messages"
                )
            case {"error": str(reason)}:
                raise self._failed(reason)
        raise self._failed("its process ended unexpectedly")

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the process answers; an empty dict if it ended."""
        with self._lock:
            process, reader = self._process()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                line = reader.submit(process.stdout.readline).result(self._seconds)
            except TookTooLong:
                self._stop()
                raise self._failed(f"it takes more than {self._seconds:g} seconds") from None
            except OSError:  # it ended before it had read everything
                line = ""
            if not line.endswith("\n"):  # it ended before it had written everything
                self._stop()
                return {}
            return json.loads(line)

    def _process(self) -> tuple["subprocess.Popen[str]", ThreadPoolExecutor]:
        if self._running is None:
            process = subprocess.Popen(  # noqa: S603 (this interpreter, a file of this package)
                [sys.executable, "-P", PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="ascii",
            )
            self._running = process, ThreadPoolExecutor(1, "chat template")
            self._finalizer = weakref.finalize(self, _kill, *self._running)  # also where nobody calls `close`
        return self._running

    def close(self) -> None:
        """End the process; the next conversation starts another."""
        with self._lock:
            self._stop()

    def _stop(self) -> None:
        if self._running is not None:
            self._finalizer()
            self._running = None

    def _failed(self, reason: str) -> FolderError:
        return FolderError(
            f"the chat template of {self._folder} fails: {reason}",
            "use another model, or generate without a chat",
        )

    def __enter__(self) -> "ChatRenderer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _kill(process: "subprocess.Popen[str]", reader: ThreadPoolExecutor) -> None:
    process.kill()
    process.wait()
    reader.shutdown()  # does not wait: without the process its `readline` ends
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with suppress(OSError):  # closing writes what the process has not read: a broken pipe
            stream.close()
