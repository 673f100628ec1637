"""Records commands in a terminal: what they print, with its colours and the time of each piece.

A pseudoterminal makes a command behave as it does for a person. The control sequences that regard prints
are known: colours, and a progress line that is erased and printed again. Any other is an error.
"""

import errno
import fcntl
import io
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS, ROWS = 90, 30
GRACE = 20.0  # seconds for a command to end after Ctrl-C

BACKGROUND, FOREGROUND = (27, 31, 40), (214, 219, 228)
THEME = TerminalTheme(
    BACKGROUND,
    FOREGROUND,
    [(27, 31, 40), (237, 116, 107), (124, 199, 124), (201, 148, 48),
     (108, 174, 245), (196, 143, 232), (92, 194, 200), (214, 219, 228)],
    [(70, 80, 100), (255, 108, 92), (152, 224, 152), (240, 190, 90),
     (140, 196, 255), (216, 170, 246), (130, 220, 224), (255, 255, 255)],
)  # fmt: skip

COLOUR = re.compile(r"\x1b\[[\d;]*m")
CURSOR = re.compile(r"\x1b\[\?25[lh]")  # hidden, shown
UNFINISHED = re.compile(r"(\x1b(\[[\d;?]*)?|\r)\Z")  # the rest comes with the next piece
ERASED = "\r\x1b[2K"


@dataclass
class Recording:
    """A command, and the pieces of its output with their seconds since its start."""

    command: str
    pieces: list[tuple[float, bytes]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """From its start to the last piece of its output."""
        return self.pieces[-1][0] if self.pieces else 0.0

    def lines(self, until: float | None = None) -> list[str]:
        """What the terminal shows after so many seconds: lines with colours; None: at the end."""
        end = self.seconds if until is None else until
        return screen_lines(
            b"".join(piece for at, piece in self.pieces if at <= end).decode("utf-8", "ignore")
        )


def record(command: str, folder: Path) -> Recording:
    """Run a command to its end.

    Raises:
        RuntimeError: it failed.
    """
    with _started(command, folder) as (process, terminal):
        recording = Recording(command, list(_pieces(terminal)))
        if process.wait():
            raise RuntimeError(f"{command}: exit code {process.returncode}\n" + "\n".join(recording.lines()))
    return recording


@contextmanager
def running(command: str, folder: Path, ready: str) -> Iterator[Recording]:
    """Run a command until it has printed `ready`; it runs on within the `with`, then gets a Ctrl-C.

    Raises:
        RuntimeError: it ended without printing it.
    """
    with _started(command, folder) as (process, terminal):
        recording = Recording(command)
        for piece in _pieces(terminal):
            recording.pieces.append(piece)
            if ready in "\n".join(recording.lines()):
                break
        else:
            raise RuntimeError(f"{command}: ended without {ready!r}\n" + "\n".join(recording.lines()))
        try:
            yield recording
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(GRACE)


@contextmanager
def _started(command: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process of a command, and the terminal's end at which its output is read."""
    terminal, its_terminal = pty.openpty()
    fcntl.ioctl(its_terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "LINES"}}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    # BROWSER: the command that opens a page. The recording opens it itself.
    environment = {**kept, "PATH": path, "TERM": "xterm-16color", "BROWSER": "true", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        shlex.split(command), cwd=folder, env=environment,
        stdin=its_terminal, stdout=its_terminal, stderr=its_terminal, start_new_session=True,
    )  # fmt: skip
    os.close(its_terminal)
    try:
        yield process, terminal
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(terminal)


def _pieces(terminal: int) -> Iterator[tuple[float, bytes]]:
    """Seconds and bytes, until nobody writes to the terminal any more."""
    started = time.monotonic()
    while True:
        select.select([terminal], [], [])
        try:
            piece = os.read(terminal, 65_536)
        except OSError as error:
            if error.errno == errno.EIO:  # Linux: the other end is closed
                return
            raise
        if not piece:
            return
        yield time.monotonic() - started, piece


def screen_lines(output: str) -> list[str]:
    """The lines that a terminal shows after this output, their colours still as control sequences.

    Raises:
        ValueError: a control sequence other than colours and an erased line.
    """
    output = UNFINISHED.sub("", CURSOR.sub("", output)).replace("\r\n", "\n")
    lines = [line.rpartition(ERASED)[2] for line in output.split("\n")]
    for line in lines:
        if unknown := re.search(r"[\x00-\x08\x0b-\x1f].{0,8}", COLOUR.sub("", line)):
            raise ValueError(f"no such control sequence is known here: {unknown[0]!r} in {line!r}")
    return lines if lines[-1] else lines[:-1]


def folded(lines: list[str]) -> list[Text]:
    """The rows of the terminal: a line wider than the terminal continues in the next row."""
    rows: list[Text] = []
    for line in lines:
        text = Text.from_ansi(line)
        rows += text.divide(range(COLUMNS, len(text), COLUMNS)) if len(text) > COLUMNS else [text]
    return rows


def html_of(rows: list[Text]) -> str:
    """The rows as HTML, for a `pre`."""
    console = Console(
        record=True, file=io.StringIO(), width=COLUMNS + 1, force_terminal=True, color_system="standard"
    )
    for row in rows:
        console.print(row, highlight=False, soft_wrap=True)
    return console.export_html(theme=THEME, inline_styles=True, code_format="{code}")
