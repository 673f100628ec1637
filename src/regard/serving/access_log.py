"""The access log: a line of JSON for each request, without texts, keys or addresses."""

import json
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Stream(Protocol):
    """What a log is written to."""

    def write(self, text: str, /) -> Any: ...
    def flush(self) -> None: ...


class AccessLog:
    """Writes a line for each request; `texts`: with the texts of the request. None writes nothing."""

    def __init__(self, stream: Stream | None = None, *, texts: bool = False) -> None:
        self.stream, self.texts = stream, texts
        self._lock = threading.Lock()

    def write(self, **facts: Any) -> None:
        if self.stream is None:
            return
        line = json.dumps(
            {"time": _now(), **{name: value for name, value in facts.items() if value is not None}}
        )
        with self._lock:
            try:
                self.stream.write(line + "\n")
                self.stream.flush()
            except (OSError, ValueError):  # the disk is full, the terminal is closed: requests are answered
                pass


def to_stderr(*, texts: bool = False) -> AccessLog:
    """A log on stderr."""
    return AccessLog(sys.stderr, texts=texts)


def _now() -> str:
    now = datetime.fromtimestamp(time.time(), UTC)
    return now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
