"""Parts of `make jobs-check`: processes killed at random, a store that fails, memory over a long job."""

import functools
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import regard
from benchmarks.common.checks import Found
from regard.jobs.inputs import find_inputs
from regard.jobs.merge import merge
from regard.jobs.part_record import PartRecord
from regard.jobs.plan import read_plan
from regard.jobs.progress import problems_of
from regard.jobs.storage import Storage
from regard.verbs.generation.translations import write_lines
from regard.verbs.shards import translate_shard
from regard.verbs.translate import Translator
from tests.long import object_store
from tests.long.job_processes import (
    JobProcesses,
    apart,
    sentences,
    sha256_of,
    write_capitals,
    write_files,
)
from tests.long.object_store import ObjectStore

SHARDS = 3
FILES_A_KILL, LINES_A_FILE = 8, 20
QUICK, LINES_OF_QUICK = 3, 4  # kills of the quick form at most, and the lines of a file then
FAILING = 0.05  # of the calls to the store
FLAT = 32 << 20  # bytes that a process may grow after a quarter of its parts


class Skipped(Exception):
    """A part of the check cannot run here, and why."""


def killed(folder: Path, kills: int) -> Found:
    """Translations by processes that are killed by SIGKILL are those of one process, to the bit."""
    return _killed(str(folder / "job"), folder, kills)


def killed_on_s3(folder: Path, kills: int) -> Found:
    """The same in a store of objects."""
    _refuse_no_store()
    with ObjectStore():
        return _killed("s3://bucket/job", folder, kills)


def _killed(place: str, folder: Path, kills: int) -> Found:
    files = FILES_A_KILL * (kills + 3)
    lines = sentences(files * (LINES_OF_QUICK if kills <= QUICK else LINES_A_FILE))
    pattern = apart(lambda: write_files(f"{place}/in", lines, files))
    answer = functools.partial(_translated, regard.load(), pattern, f"{place}/out")
    processes = JobProcesses(answer, SHARDS, folder / "log")
    done = processes.run(parts=files, kills=kills)
    expected = translated_by_one(lines, folder)
    found = merged(f"{place}/out", folder / "merged")
    assert sha256_of(found) == sha256_of(expected), "the output is not that of one process"
    again = len(done) - len({each.part for each in done})
    return (
        f"{kills} kills of {SHARDS} processes; {files} parts, {again} of them twice; "
        f"{lines_of(found, len(lines))}; SHA-256 as of one process; {_second(processes, f'{place}/out')}",
        {"kills": kills, "processes": SHARDS, "lines": len(lines)},
    )


def _translated(
    model: object,
    pattern: str,
    output: str,
    shard: tuple[int, int],
    done: Callable[[PartRecord], None],
) -> None:
    number = "{}/{}".format(*shard)
    settings = {"as_json": True, "threads": 1, "workers": 1, "done": done}
    translate_shard(pattern, output, model=model, shard=number, **settings)


def translated_by_one(lines: list[str], folder: Path) -> bytes:
    target = folder / "whole.jsonl"
    write_lines(Translator(threads=1, workers=1)(lines), target, as_json=True)
    return target.read_bytes()


def failing_store(folder: Path, files: int) -> Found:
    """A store of which calls fail, are slow, or work although their answer is lost."""
    _refuse_no_store()
    lines = sentences(files * 3)
    with ObjectStore(failing=FAILING) as store:
        assert store.proxy
        place = "s3://bucket/job"
        pattern = apart(lambda: write_files(f"{place}/in", lines, files))
        answer = functools.partial(write_capitals, pattern, f"{place}/out")
        processes = JobProcesses(answer, SHARDS, folder / "log")
        processes.run(parts=files, kills=SHARDS)
        found = merged(f"{place}/out", folder / "merged")
        expected = "".join(f"{line.upper()}\n" for line in lines)
        assert sha256_of(found) == sha256_of(expected), "the output is not that of one process"
        second = _second(processes, f"{place}/out")
        calls, failed, slow = store.proxy.calls, store.proxy.failed, store.proxy.slow
    assert failed > calls * FAILING / 2, f"only {failed} of {calls} calls failed"
    return (
        f"{calls:,} calls, {failed:,} failed, {slow:,} slow, {SHARDS} kills; {len(lines):,} lines, "
        f"SHA-256 as of one process; {second}",
        {"calls": calls, "failed": failed, "kills": SHARDS},
    )


def memory(folder: Path, megabytes: int) -> Found:
    """A process needs no more memory after many parts, or for a large compressed file, or to merge it."""
    lines = sentences(20_000)
    text = "".join(f"{line}\n" for line in lines).encode()
    place = folder / "in"
    place.mkdir()
    for number in range(megabytes):
        (place / f"{number:05d}.txt").write_bytes(text)
    grown = _growth(folder / "many", f"{place}/*")
    with gzip.open(folder / "large.gz", "wb", compresslevel=1) as file:
        for _ in range(megabytes):
            file.write(text)
    large = _growth(folder / "large", str(folder / "large.gz"))
    size = megabytes * len(text) >> 20
    return (
        f"{size:,} MB in {megabytes} files: {grown >> 20} MiB more after a quarter, and in the merge; "
        f"as one compressed file: {large >> 20} MiB more than before",
        {"mb": size, "files": megabytes, "mib_more": grown >> 20, "mib_more_compressed": large >> 20},
    )


def _growth(folder: Path, pattern: str) -> int:
    """The memory that a process needs in addition, after its first parts, and while it merges."""
    folder.mkdir()

    def work() -> list[int]:
        memory_now = [_peak()]

        def done(record: PartRecord) -> None:
            memory_now.append(_peak())

        write_capitals(pattern, str(folder / "out"), (1, 1), done, part_bytes=4 << 20)
        first = memory_now[len(memory_now) // 4]
        storage = Storage(str(folder / "out"))
        merge(read_plan(storage), storage, str(folder / "merged"))
        return [first, _peak()]

    first, last = apart(work)
    assert last - first <= FLAT, f"memory grew from {first >> 20} to {last >> 20} MiB"
    return last - first


def _peak() -> int:
    """The most memory that this process has had, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def merged(output: str, target: Path) -> bytes:
    """The merged output of a job that has no problem."""

    def work() -> list[str]:
        storage = Storage(output)
        plan = read_plan(storage)
        problems = problems_of(plan, storage)
        if not problems:
            merge(plan, storage, str(target))
        return problems

    problems = apart(work)
    assert not problems, problems[:3]
    return target.read_bytes()


def lines_of(merged: bytes, expected: int) -> str:
    numbers = [json.loads(line)["line"] for line in merged.splitlines()]
    twice, missing = len(numbers) - len(set(numbers)), len(set(range(1, expected + 1)) - set(numbers))
    assert (twice, missing) == (0, 0)
    return f"{len(numbers):,} lines, {twice} duplicates, {missing} missing"


def _second(processes: JobProcesses, output: str) -> str:
    """The same commands again change nothing."""

    def files() -> list[dict[str, Any]]:
        return [each.to_dict() for each in find_inputs([f"{output}/*", f"{output}/parts/*"])]

    before = apart(files)
    done = processes.run()
    assert not done, f"a second run answered {len(done)} parts again"
    assert apart(files) == before, "a second run changed a file"
    return "a second run did nothing"


def _refuse_no_store() -> None:
    if lacking := object_store.missing():
        raise Skipped(f"{lacking} is not installed")
