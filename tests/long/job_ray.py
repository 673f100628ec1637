"""Part of `make jobs-check`: a job on Ray whose processes, machines and head are killed."""

import contextlib
import gzip
import importlib.util
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common.checks import Found
from tests.long.job_parts import Skipped, lines_of, merged, translated_by_one
from tests.long.job_processes import apart, sentences, sha256_of, write_files

MACHINES = 3  # raylets of one core
LINES_A_FILE = 60
FILES_A_KILL = 24  # half of them after the head was killed: the command takes ten seconds to see it
LONGEST = 120.0  # seconds without a part
ACTOR = "ray::PartWorker"
TRIES = 3  # of a command of another machine
WORKER_PORTS = ("--min-worker-port", "10002", "--max-worker-port", "19999")


def on_ray(folder: Path, kills: int) -> Found:
    """Processes and machines of a cluster are killed, at last its head; the same command ends the job."""
    if importlib.util.find_spec("ray") is None:
        raise Skipped("ray is not installed")
    machines = max(1, kills // 4)
    files = FILES_A_KILL * (kills + machines + 3)
    lines = sentences(files * LINES_A_FILE)
    (folder / "in").mkdir()
    for number in range(files):
        content = "".join(f"{line}\n" for line in lines[number * LINES_A_FILE : (number + 1) * LINES_A_FILE])
        (folder / "in" / f"{number:05d}.gz").write_bytes(gzip.compress(content.encode()))
    job = RayJob(folder, files)
    expected = translated_by_one(lines, folder)
    first, most, headless = apart(lambda: job.killed(kills, machines))
    seconds = apart(job.ended)
    found = merged(str(folder / "out"), folder / "merged")
    assert sha256_of(found) == sha256_of(expected), "the output is not that of one process"
    return (
        f"{kills} processes, {machines} machines and the head of {MACHINES} machines killed; {files} parts, "
        f"{lines_of(found, len(lines))}; SHA-256 as of one process; a process has {first} MiB at first, none "
        f"more than {most}; without its head the command ended in {headless:.0f} s; a second run did nothing "
        f"in {seconds:.0f} s",
        {
            "processes": kills,
            "machines_killed": machines,
            "machines": MACHINES,
            "lines": len(lines),
            "mib_first": first,
            "mib_most": most,
        },
    )


def by_client(folder: Path, files: int) -> Found:
    """A command of another machine, which reaches the cluster by Ray's client and has its token."""
    if importlib.util.find_spec("ray") is None:
        raise Skipped("ray is not installed")
    lines = sentences(files * LINES_A_FILE)
    pattern = write_files(str(folder / "in"), lines, files)
    expected = translated_by_one(lines, folder)
    ray = Path(sys.executable).parent / "ray"
    environment = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
    ports = ("--port", str(free_port()), "--ray-client-server-port", str(port := free_port()))
    start = [
        str(ray),
        "start",
        "--head",
        *ports,
        *WORKER_PORTS,
        "--num-cpus",
        "2",
        "--include-dashboard=false",
    ]
    subprocess.run(start, check=True, capture_output=True, env=environment)
    try:
        command = ["translate", "--input", pattern, "--output", str(folder / "out"), "--json"]
        regard = [sys.executable, "-m", "regard", *command, "--on", f"ray://127.0.0.1:{port}"]
        for _ in range(TRIES):  # a busy head may need longer than Ray waits; the hint says to try again
            done = subprocess.run(regard, capture_output=True, text=True, env=environment)
            if done.returncode == 0:
                break
    finally:
        subprocess.run([str(ray), "stop", "--force"], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr[-1000:]
    found = merged(str(folder / "out"), folder / "merged")
    assert sha256_of(found) == sha256_of(expected), "the output is not that of one process"
    return (
        f"{files} parts by ray://, {lines_of(found, len(lines))}; SHA-256 as of one process",
        {"parts": files},
    )


def free_port() -> int:
    """A free port, below those of Ray's processes."""
    while True:
        port = random.randrange(2000, 9000)
        with contextlib.closing(socket.socket()) as each, contextlib.suppress(OSError):
            each.bind(("127.0.0.1", port))
            return port


class RayJob:
    """A cluster of this machine, and the command whose job it does."""

    def __init__(self, folder: Path, files: int) -> None:
        self.folder, self.files, self.draw = folder, files, random.Random(1)

    def killed(self, kills: int, machines: int) -> tuple[int, int, float]:
        """The job until its head is killed: MiB of a process, at first and at most; seconds until it ends."""
        cluster = self._cluster()
        command = self._command(cluster.address)
        targets = ["process"] * kills + ["machine"] * machines
        self.draw.shuffle(targets)
        memory: list[int] = []
        for kill, target in enumerate(targets):
            self._wait_until(command, (kill + self.draw.random()) * self.files / 2 / len(targets))
            memory += [process.memory_info().rss for process in _actors()]
            if target == "process":
                self._kill_process(command)
            else:
                node = self.draw.choice(sorted(cluster.worker_nodes, key=lambda node: node.unique_id))
                cluster.remove_node(node, allow_graceful=False)
                cluster.add_node(num_cpus=1)
        self._wait_until(command, self.files / 2)
        cluster.remove_node(cluster.head_node, allow_graceful=False)
        began = time.monotonic()
        code = command.wait(LONGEST)
        assert code, "the command ended well without a head"
        assert self._done() < self.files, "the job ended before its head was killed"
        headless = time.monotonic() - began
        *_, error, hint = (self.folder / "log").read_text().splitlines()
        assert (error[:7], hint[:6]) == ("error: ", "hint: "), (error, hint)
        cluster.shutdown()
        _end_actors()
        return memory[0] >> 20, max(memory) >> 20, headless

    def ended(self) -> float:
        """The same command on another cluster ends the job; the seconds of one more, which does nothing."""
        cluster = self._cluster()
        first = self._command(cluster.address)
        assert first.wait(1200) == 0, "the same command did not end the job"
        before = {file: file.stat().st_mtime_ns for file in (self.folder / "out").rglob("*")}
        began = time.monotonic()
        assert self._command(cluster.address).wait(300) == 0
        seconds = time.monotonic() - began
        assert {file: file.stat().st_mtime_ns for file in (self.folder / "out").rglob("*")} == before
        cluster.shutdown()
        return seconds

    def _cluster(self) -> Any:
        from ray.cluster_utils import Cluster  # pyright: ignore[reportMissingImports]

        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for _ in range(MACHINES):
            cluster.add_node(num_cpus=1)
        return cluster

    def _command(self, address: str) -> "subprocess.Popen[bytes]":
        arguments = ("--input", f"{self.folder}/in/*.gz", "--output", f"{self.folder}/out", "--on", "ray")
        command = [sys.executable, "-m", "regard", "translate", *arguments, "--json"]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, env={**os.environ, "RAY_ADDRESS": address}, stderr=log, stdout=log
            )

    def _done(self) -> int:
        return len(list((self.folder / "out").glob("parts/*.json")))

    def _wait_until(self, command: "subprocess.Popen[bytes]", parts: float) -> None:
        looked, ends = -1, 0.0
        while (done := self._done()) < parts:
            if done != looked:
                looked, ends = done, time.monotonic() + LONGEST
            assert command.poll() is None, f"the command ended: {(self.folder / 'log').read_text()[-500:]}"
            assert time.monotonic() < ends, f"nothing was done in {LONGEST:.0f} s, after {done} parts"
            time.sleep(0.02)

    def _kill_process(self, command: "subprocess.Popen[bytes]") -> None:
        while True:
            assert command.poll() is None, "the job ended before this kill"
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):
                self.draw.choice(_actors()).kill()
                return
            time.sleep(0.1)


def _actors() -> list[psutil.Process]:
    """The processes that hold a model; all are this check's own."""
    return [each for each in psutil.process_iter() if _is_actor(each)]


def _is_actor(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.cmdline()[:1] != [] and process.cmdline()[0].startswith(ACTOR)
    return False


def _end_actors() -> None:
    for each in _actors():
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
