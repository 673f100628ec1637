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
SECONDS = 10.0  # for one conversation; templates of known models take milliseconds


class ChatRenderer:
    """Writes conversations by a template. Its process starts with the first one, and ends with `close`.

    Several threads may call it.

    Args:
        template: the template of a model folder.
        where: the folder's name for messages.
        seconds: the time that a conversation may take.
    """

    def __init__(self, template: ChatTemplate, where: str, seconds: float = SECONDS) -> None:
        self._template, self._where, self._seconds = template, where, seconds
        self._lock = threading.Lock()
        self._running: tuple[subprocess.Popen[str], ThreadPoolExecutor] | None = None

    def render(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> str:
        """The text of a conversation, with the beginning of the answer unless that is not wanted.

        Raises:
            DataError: the template has no place for these messages. FolderError: it fails.
        """
        variables = {
            **self._template.special_tokens,
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": add_generation_prompt,
            "tools": None,
            "documents": None,
        }
        request = {
            "template": self._template.template,
            "variables": variables,
            "seconds": 2 * self._seconds,  # if this process has ended meanwhile
        }
        match self._answer(request):
            case {"text": str(text)}:
                return text
            case {"refusal": str(reason)}:
                raise DataError(
                    f"the chat template refuses this conversation: {reason}", "change its messages"
                )
            case {"error": str(reason)}:
                raise self._failed(reason)
        raise self._failed("it ended its process")

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the process answers; an empty dict if it ended."""
        with self._lock:
            process, reader = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                line = reader.submit(process.stdout.readline).result(self._seconds)
            except TookTooLong:
                self._end()
                raise self._failed(f"it takes more than {self._seconds:g} seconds") from None
            except OSError:  # it ended before it had read everything
                line = ""
            if not line.endswith("\n"):  # it ended before it had written everything
                self._end()
                return {}
            return json.loads(line)

    def _started(self) -> tuple["subprocess.Popen[str]", ThreadPoolExecutor]:
        if self._running is None:
            process = subprocess.Popen(  # noqa: S603 (this interpreter, a file of this package)
                [sys.executable, "-P", PROGRAM],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="ascii",
            )
            self._running = process, ThreadPoolExecutor(1, "chat template")
            self._ending = weakref.finalize(self, _end, *self._running)  # also where nobody calls `close`
        return self._running

    def close(self) -> None:
        """End the process; the next conversation starts another."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._running is not None:
            self._ending()
            self._running = None

    def _failed(self, reason: str) -> FolderError:
        return FolderError(
            f"the chat template of {self._where} fails: {reason}", "give another model, or leave out the chat"
        )

    def __enter__(self) -> "ChatRenderer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _end(process: "subprocess.Popen[str]", reader: ThreadPoolExecutor) -> None:
    process.kill()
    process.wait()
    reader.shutdown()  # its thread has come to the end of the output
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with suppress(OSError):  # what it has not read
            stream.close()
