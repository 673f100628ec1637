"""A contender: a library in its own process, so that threads and memory of others do not disturb it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import memory, products
from benchmarks.common.unfit import Unfit

if TYPE_CHECKING:
    from regard.training.products import MatmulPrecision

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 30  # seconds until a process that does not end is killed


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A participant: a name for the table, the class to create, its settings, its threads."""

    name: str
    make: str  # MODULE:CLASS
    settings: dict[str, Any] = field(default_factory=dict)
    threads: int = 1  # of each of its processes
    matmul: MatmulPrecision = "highest"  # see `products.py`


class Contender:
    """The process of an entry; `absent` is None, or says why there is no process."""

    def __init__(self, entry: Entry) -> None:
        self.name, self.entry = entry.name, entry
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, lives as long as the process
        threads = str(entry.threads)
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.common.child"),
                *(entry.make, json.dumps(entry.settings), entry.matmul),
            ],
            cwd=ROOT,
            env={
                **os.environ,
                **products.environment(entry.matmul),
                "OMP_NUM_THREADS": threads,
                "MKL_NUM_THREADS": threads,
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,  # memory and time are measured by session
        )
        self.absent: str | None = None

    def wait(self) -> None:
        """Wait until the contender is created, or has reported why it cannot be."""
        try:
            self._answer()
        except Unfit as unfit:
            self.absent = str(unfit)

    @property
    def session(self) -> int:
        return self._process.pid

    def ask(self, call: str, **arguments: Any) -> Any:
        """The result of the contender's method `call`.

        Raises:
            Unfit: it cannot do that, or its process was killed.
        """
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the answer says why
            self._process.stdin.write(json.dumps({"call": call, "arguments": arguments}) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def peak_mib(self) -> float:
        return memory.peak_resident(self.session) / 2**20

    def close(self) -> None:
        """End the process by closing its input; kill it after PATIENCE seconds."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.session, signal.SIGKILL)
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line and self._process.wait() == -signal.SIGKILL:
            raise Unfit("its process was killed, probably for want of memory")
        answer = json.loads(line) if line else {"error": self._last_words()}
        if "absent" in answer:
            raise Unfit(answer["absent"])
        if "error" in answer:
            raise RuntimeError(f"{self.name} failed:\n{answer['error']}")
        return answer["value"]

    def _last_words(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-4000:]


@contextmanager
def contenders(entries: Sequence[Entry]) -> Iterator[list[Contender]]:
    """A context with the processes of all entries, which are ended at its end."""
    made: list[Contender] = []
    try:
        for entry in entries:
            made.append(Contender(entry))
        for contender in made:
            contender.wait()
        yield made
    finally:
        for contender in made:
            contender.close()
