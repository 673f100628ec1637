"""Jobs for checks: files of lines, and forked processes that answer them and are killed at random moments."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec

from regard.errors import RegardError
from regard.jobs.inputs import InputFile, find_inputs
from regard.jobs.part_record import PartRecord
from regard.jobs.plan import Plan
from regard.jobs.shard import run_shard
from regard.jobs.storage import Storage

PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "txt": bytes,
}
WHO = ("I", "You", "We", "They", "Two girls", "The dog", "A man in a red hat")
DOES = ("see", "like", "don't need", "want to buy", "have lost", "are looking at", "will bring back")
WHAT = ("the cat", "a house", "three apples", "this book", "my friend", "nothing", "the train to Hamburg")
SMALL = 60  # bytes of a part: some lines
SPARE = 3  # parts of a job after the last kill, which on a busy machine falls late
WRITTEN_LATE = 0.05  # seconds between a part and a kill, at most


def sentences(number: int, seed: int = 1) -> list[str]:
    """Short sentences; some are empty."""
    draw = random.Random(seed)
    made = (f"{draw.choice(WHO)} {draw.choice(DOES)} {draw.choice(WHAT)}." for _ in range(number))
    return [each if draw.random() > 0.05 else "" for each in made]


def write_files(folder: str, lines: Sequence[str], files: int) -> str:
    """Lines as that many files of all kinds, in order; returns their pattern."""
    system, path = fsspec.core.url_to_fs(folder)
    system.makedirs(path, exist_ok=True)
    size = -(-len(lines) // files)
    for number in range(files):
        kind = list(PACKED)[number % len(PACKED)]
        content = "".join(f"{line}\n" for line in lines[number * size : (number + 1) * size]).encode()
        system.pipe_file(f"{path}/{number:05d}.{kind}", PACKED[kind](content))
    return f"{folder}/*"


def sha256_of(content: str | bytes) -> str:
    """The digest of a text or of bytes."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


def capitals(lines: Sequence[str], first: int) -> list[str]:
    """An answer that costs nothing."""
    return [f"{line.upper()}\n" for line in lines]


def planned(pattern: str, part_bytes: int = SMALL, inputs: Sequence[InputFile] | None = None) -> Plan:
    """A plan of a job that writes capitals; `inputs` instead of those of the pattern."""
    return Plan(
        command="capitals",
        version="1",
        model="none",
        settings={},
        format="text",
        inputs=find_inputs([pattern]) if inputs is None else inputs,
        part_bytes=part_bytes,
    )


def write_capitals(
    pattern: str,
    output: str,
    shard: tuple[int, int],
    done: Callable[[PartRecord], None],
    part_bytes: int = SMALL,
) -> None:
    """One shard of such a job."""
    storage = Storage(output)
    plan = planned(pattern, part_bytes).agreed(storage)
    run_shard(plan, storage, shard, capitals, failure=lambda line, reason: "\n", engine={}, done=done)


@dataclass(frozen=True)
class Finished:
    """A part that a process has written, and the memory of the process then, in bytes."""

    part: int
    process: int
    memory: int


class JobProcesses:
    """Processes that answer the shards of a job; each is started again when it was killed.

    Args:
        answer: answers one shard; it is given the shard, from 1, and what to call after each part.
        log: a file of this machine for what the processes have finished.
    """

    def __init__(
        self, answer: Callable[[tuple[int, int], Callable[[PartRecord], None]], None], shards: int, log: Path
    ) -> None:
        self.answer, self.shards, self.log = answer, shards, log
        log.write_bytes(b"")

    def run(self, *, parts: int = 0, kills: int = 0, seed: int = 1) -> list[Finished]:
        """Answer all shards, with kills all over the run; what has been finished, in order."""
        before, draw = len(self.finished()), random.Random(seed)
        running = {shard: self._start(shard) for shard in range(1, self.shards + 1)}
        for kill in range(kills):
            wanted = before + int((kill + draw.random()) * parts / (kills + SPARE))
            while len(self.finished()) < wanted:
                self._reap(running)
                assert running, f"the job ended before kill {kill + 1}"
                time.sleep(0.005)
            time.sleep(draw.uniform(0, WRITTEN_LATE))
            self._reap(running)
            assert running, f"the job ended before kill {kill + 1}"
            shard = draw.choice(sorted(running))
            os.kill(running[shard], signal.SIGKILL)
            os.waitpid(running[shard], 0)
            running[shard] = self._start(shard)
        while running:
            self._reap(running)
            time.sleep(0.005)
        return self.finished()[before:]

    def finished(self) -> list[Finished]:
        """What the processes have logged."""
        return [Finished(*map(int, line.split())) for line in self.log.read_text().splitlines()]

    def _start(self, shard: int) -> int:
        return forked(lambda: self.answer((shard, self.shards), self._log))

    def _log(self, record: PartRecord) -> None:
        with self.log.open("ab", buffering=0) as file:
            file.write(f"{record.part} {os.getpid()} {resident()}\n".encode())

    def _reap(self, running: dict[int, int]) -> None:
        for shard, process in list(running.items()):
            found, status = os.waitpid(process, os.WNOHANG)
            if found:
                assert status == 0, f"shard {shard} ended with {os.waitstatus_to_exitcode(status)}"
                del running[shard]


def resident() -> int:
    """The memory of this process, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def apart(work: Callable[[], Any]) -> Any:
    """What a function returns in a process of its own, as JSON has it.

    A process that has talked to S3 has threads and connections that its forks cannot use.
    """
    reader, writer = os.pipe()

    def reported() -> None:
        with open(writer, "w") as file:
            json.dump(work(), file)

    child = forked(reported)
    os.close(writer)
    with open(reader) as file:
        content = file.read()
    wait_for(child)
    return json.loads(content)


def wait_for(child: int) -> None:
    """Waits for a child, which must end well."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"a process ended with {code}"


def forked(work: Callable[[], None], *, reports: bool = True) -> int:
    """Starts a child that does this; its exit code is 0, that of a RegardError, or 99 for any other error.

    `reports`: it prints a RegardError.
    """
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        work()
        code = 0
    except RegardError as error:
        code = error.exit_code
        if reports:
            print(f"{error.message} ({error.hint})", file=sys.stderr, flush=True)
    except BaseException:  # noqa: BLE001 (the parent asserts)
        traceback.print_exc()
    finally:
        os._exit(code)
