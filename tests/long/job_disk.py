"""Parts of `make jobs-check`: a disk that fails or is full at each call of a job."""

import builtins
import errno
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.common.checks import Found
from regard.errors import RunError
from regard.jobs import shard, storage
from regard.jobs.merge import merge
from regard.jobs.plan import read_plan
from regard.jobs.progress import problems_of
from regard.jobs.storage import Storage
from tests.long.job_parts import Skipped
from tests.long.job_processes import forked, planned, sentences, sha256_of, write_capitals, write_files

CALLS = ("makedirs", "fsync", "replace", "link", "rename")
FAULTS = ("ENOSPC", "EIO", "EDQUOT", "EROFS")
UNTOUCHED = 78
BLOCKS = 40  # of 4096 bytes, of a disk that is full


class FailingDisk:
    """Counts the calls that write to the disk; from number `at` on all of them fail."""

    def __init__(self, fault: str, at: int) -> None:
        self.fault, self.at, self.count = fault, at, 0
        for name in CALLS:
            setattr(os, name, self._wrapped(getattr(os, name)))
        storage.open = self._open  # type: ignore[attr-defined]

    def _wrapped(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **keywords: Any) -> Any:
            self._count(arguments[0])
            return call(*arguments, **keywords)

        return called

    def _count(self, what: Any) -> None:
        self.count += 1
        if self.count >= self.at:
            number = getattr(errno, self.fault)
            raise OSError(number, os.strerror(number), str(what))

    def _open(self, path: str, mode: str, *arguments: Any) -> Any:
        self._count(path)
        file = builtins.open(path, mode, *arguments)  # noqa: SIM115 (closed by _Written)
        write = file.write

        def half(content: bytes) -> int:
            try:
                self._count(path)
            except OSError:
                write(content[: len(content) // 2])  # as a disk does that has room for so much
                raise
            return write(content)

        return _Written(file, half)


class _Written:
    """A file with another method `write`."""

    def __init__(self, file: Any, write: Callable[[bytes], int]) -> None:
        self._file, self.write = file, write

    def __enter__(self) -> "_Written":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def writelines(self, contents: Iterable[bytes]) -> None:
        for content in contents:
            self.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def failing_disk(folder: Path, files: int) -> Found:
    """Whatever call a disk begins to fail at, what is recorded is whole, and the command ends the job."""
    lines = sentences(files * 3)
    pattern = write_files(str(folder / "in"), lines, files)
    expected = sha256_of("".join(f"{line.upper()}\n" for line in lines))
    storage.FIRST_WAIT = shard.WAIT = 0.0
    failures = 0
    faults = FAULTS if files > 1 else FAULTS[:2]  # in the quick form
    for fault in faults:
        for at in count(1):
            output = folder / f"{fault}-{at}"
            code = _ended(lambda output=output, fault=fault, at=at: _fails(pattern, output, fault, at))
            if code == UNTOUCHED:
                break
            assert code in (1, 2), f"{fault} at call {at}: exit code {code}"
            failures += 1
            _finish(pattern, output, expected)
            shutil.rmtree(output)
    return (
        f"{failures} failures ({', '.join(faults)}); the same command ended each job, SHA-256 as of one",
        {"failures": failures, "errors": len(faults)},
    )


def _fails(pattern: str, output: Path, fault: str, at: int) -> None:
    disk = FailingDisk(fault, at)
    write_capitals(pattern, str(output), (1, 1), lambda record: None)
    place = Storage(str(output))
    merge(read_plan(place), place, str(output / "merged"))
    if disk.count < at:
        os._exit(UNTOUCHED)


def _finish(pattern: str, output: Path, expected: str) -> None:
    """After a failure: what is recorded is whole; the same command answers the rest; the output is right."""
    place, merged = Storage(str(output)), output / "merged"
    if place.read("plan.json") is not None:
        wrong = [each for each in problems_of(read_plan(place), place) if not each.endswith("is missing")]
        assert not wrong, wrong[:3]
    if merged.exists():  # complete, or not there
        assert sha256_of(merged.read_bytes()) == expected
        merged.unlink()
    write_capitals(pattern, str(output), (1, 1), lambda record: None)
    plan = planned(pattern)
    assert problems_of(plan, place) == []
    merge(plan, place, str(merged))
    assert sha256_of(merged.read_bytes()) == expected
    assert not [each for each in output.rglob("*") if each.name.startswith(".") or "partial" in each.name]


def full_disk(folder: Path, disks: int) -> Found:
    """A small disk of its own that is full: one error that names it; with more room the job ends."""
    files = 30
    lines = sentences(files * 100)
    pattern = write_files(str(folder / "in"), lines, files)
    expected = sha256_of("".join(f"{line.upper()}\n" for line in lines))
    done_then, parts = [], len(list(planned(pattern).parts()))
    for disk in range(disks):
        with _disk(folder / f"disk-{disk}", BLOCKS * (disk + 1)) as place:
            output = place / "out"
            code = _ended(lambda output=output: _refused(pattern, output))
            assert code == 0, f"exit code {code}"
            wrong = [
                each
                for each in problems_of(planned(pattern), Storage(str(output)))
                if not each.endswith("is missing")
            ]
            assert not wrong, wrong[:3]
            done_then.append(len(list((output / "parts").glob("*.json"))))
            subprocess.run(["mount", "-o", "remount,size=64m", str(place)], check=True)
            _finish(pattern, output, expected)
    return (
        f"{disks} full disks, after {done_then} of {parts} parts; with more room the same command ended each "
        "job, SHA-256 as of one",
        {"disks": disks},
    )


def _refused(pattern: str, output: Path) -> None:
    storage.FIRST_WAIT = shard.WAIT = 0.0
    with pytest.raises(RunError, match="No space left on device"):
        write_capitals(pattern, str(output), (1, 1), lambda record: None)


@contextmanager
def _disk(place: Path, blocks: int) -> Iterator[Path]:
    """A file system of that size; needs root."""
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={blocks * 4096}", "none", str(place)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        raise Skipped("a disk of its own needs root")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def _ended(work: Callable[[], None]) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(forked(work, reports=False), 0)[1])
