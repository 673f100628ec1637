"""Part of `make jobs-check`: what shards and Ray cost beside one command on the same cores."""

import importlib.util
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.common.checks import Found
from tests.long.job_parts import Skipped
from tests.long.job_processes import sentences
from tests.long.job_ray import WORKER_PORTS, free_port

LINES_A_FILE = 1024  # as many as a process answers together
FILES = 16  # of a whole job; one of a part of it has as many files as processes
ROUNDS = 3
PROCESSES = 2


def speed(folder: Path, rounds: int) -> Found:
    """Lines a second of each way to translate many files by two processes, and by one.

    Each way translates all files and then two of them; the difference is without what it takes to start.
    """
    if importlib.util.find_spec("ray") is None:
        raise Skipped("ray is not installed")
    for name, files in (("whole", FILES), ("part", PROCESSES)):
        (folder / name).mkdir()
        for number in range(files):
            lines = sentences(LINES_A_FILE, seed=number)
            (folder / name / f"{number:02d}.txt").write_text("".join(f"{line}\n" for line in lines))
        whole = "".join(path.read_text() for path in sorted((folder / name).glob("*.txt")))
        (folder / f"{name}.txt").write_text(whole)
    ways: dict[str, Callable[[str], None]] = {
        "one process": lambda name: _run(folder, [_shard(folder, name, 1, 1)]),
        "two workers": lambda name: _run(folder, [_workers(folder, name)]),
        "two shards": lambda name: _run(folder, [_shard(folder, name, each, 2) for each in (1, 2)]),
        "ray": lambda name: _run(folder, [_on_ray(folder, name)]),
    }
    ray = Path(sys.executable).parent / "ray"
    ports = ("--port", str(free_port()), "--ray-client-server-port", str(free_port()))
    head = [str(ray), "start", "--head", *ports, *WORKER_PORTS, "--num-cpus", str(PROCESSES)]
    subprocess.run([*head, "--include-dashboard=false"], check=True, capture_output=True)
    try:
        taken: dict[str, list[float]] = {way: [] for way in ways}
        for number in range(rounds):
            order = [*ways][number % len(ways) :] + [*ways][: number % len(ways)]
            for way in order:
                seconds = {name: _timed(folder, ways[way], name) for name in ("whole", "part")}
                lines = (FILES - PROCESSES) * LINES_A_FILE
                taken[way].append(lines / (seconds["whole"] - seconds["part"]))
    finally:
        subprocess.run([str(ray), "stop", "--force"], capture_output=True)
    ratio = {way: _ratio(taken[way], taken["two workers"]) for way in ways}
    scaling = _ratio(taken["two shards"], taken["one process"])
    rates = {way: statistics.median(found) for way, found in taken.items()}
    said = ", ".join(f"{way} {rate:.0f} lines a second ({ratio[way]:.2f})" for way, rate in rates.items())
    return (
        f"{said}; two shards are {scaling:.2f} times as fast as one process; {rounds} rounds",
        {"rounds": rounds, "lines_per_second": rates, "ratio": ratio, "scaling": scaling},
    )


def _ratio(one: list[float], other: list[float]) -> float:
    """The median of the ratios within each round."""
    return statistics.median(mine / theirs for mine, theirs in zip(one, other, strict=True))


def _timed(folder: Path, way: Callable[[str], None], name: str) -> float:
    shutil.rmtree(folder / "out", ignore_errors=True)
    began = time.monotonic()
    way(name)
    return time.monotonic() - began


def _run(folder: Path, commands: list[list[str]]) -> None:
    """Run these commands together."""
    with (folder / "log").open("w") as log:
        running = [subprocess.Popen(each, stdout=log, stderr=log) for each in commands]
        codes = [each.wait() for each in running]
    assert not any(codes), (folder / "log").read_text()[-1000:]


def _shard(folder: Path, name: str, shard: int, shards: int) -> list[str]:
    return _translate(
        f"{folder}/{name}/*.txt", folder / "out", "--shard", f"{shard}/{shards}", "--workers", "1"
    )


def _workers(folder: Path, name: str) -> list[str]:
    return _translate(f"{folder}/{name}.txt", folder / "whole.out", "--workers", str(PROCESSES))


def _on_ray(folder: Path, name: str) -> list[str]:
    where = ("--on", "ray", "--processes", str(PROCESSES))
    return _translate(f"{folder}/{name}/*.txt", folder / "out", *where)


def _translate(source: str, output: Path, *how: str) -> list[str]:
    command = [sys.executable, "-m", "regard", "translate", "--input", source, "--output", str(output)]
    return [*command, "--threads", "1", *how]
