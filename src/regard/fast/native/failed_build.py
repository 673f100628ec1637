"""A failed compilation is not tried again at each start, which would take seconds, but once a day."""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from regard.errors import RunError

DAY = 86_400  # seconds until it is tried again: what was missing may be there then
AGAIN = "`regard doctor` tries again at once"


def recall_failure(folder: Path, key: str, compiler: Sequence[str]) -> RunError | None:
    """The failure of this compiler with this key, if it is of the last day; otherwise None."""
    try:
        kept = json.loads(_file(folder, key).read_text("utf-8"))
        if kept["compiler"] != _identity(compiler) or not 0 <= time.time() - kept["time"] < DAY:
            return None
        return RunError(str(kept["message"]), f"{kept['hint']}; {AGAIN}")
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep_failure(folder: Path, key: str, compiler: Sequence[str], error: RunError) -> None:
    """Keep what went wrong; where that is impossible, the compiler is tried at each start."""
    with contextlib.suppress(OSError):
        kept = {
            "compiler": _identity(compiler),
            "time": time.time(),
            "message": error.message,
            "hint": error.hint,
        }
        _file(folder, key).write_text(json.dumps(kept), "utf-8")


def forget_failures(folder: Path) -> None:
    """Let every compiler be tried again."""
    for file in folder.glob("failed-*.json"):
        with contextlib.suppress(OSError):
            file.unlink()


def _file(folder: Path, key: str) -> Path:
    return folder / f"failed-{key}.json"


def _identity(compiler: Sequence[str]) -> list[str]:
    """Changes when the compiler is installed again."""
    found = os.stat(shutil.which(compiler[0]) or compiler[0])
    return [*compiler, str(found.st_mtime_ns), str(found.st_size)]
