"""The server under load: throughput against offline decoding in the same run, and the time of an answer.

`python -m benchmarks.serve` starts `regard serve` with the included model. It measures the time from the
start to the first answer; then, with one thread, a client alone, 64 clients, half of that rate, and a long
text with two workers against one. The clients run in this process, on the same machine.
"""

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from benchmarks.common.checks import Found, record_of
from regard.data.files import locate, read_lines

ROUNDS, SECONDS, QUICK_SECONDS = 7, 6.0, 3.0
CLIENTS = 64
PATH = "/api/v1/translate"
SENTENCES, LONG_ROUNDS = 200, 7  # of a long text; how often it is translated
STARTS = 5  # of a server, to measure its first answer
ONE_THREAD = ("--threads", "1")


class Server:
    """`regard serve` in a process of its own, with one worker of one thread unless options say otherwise.

    `threads`: the option for them; without it the server has its default workers. `environment`: more
    variables.
    """

    def __init__(
        self,
        *options: str,
        threads: Sequence[str] = ONE_THREAD,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "regard", "serve", "--port", "0", *threads, *options]
        whole = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=whole)
        assert self.process.stderr is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.process.stderr.readline())
        assert found, "the server did not start"
        self.port = int(found[1])

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.terminate()
        self.process.communicate(timeout=120)


class Client:
    """A client that keeps its connection."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def post(self, path: str, body: object) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        if self.writer is None or self.reader is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        self.writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        status = int((await self.reader.readline()).split()[1])
        length, closes = 0, False
        while (line := await self.reader.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
            closes = closes or (name.lower() == b"connection" and b"close" in value)
        answer = await self.reader.readexactly(length)
        if closes:
            self.close()
        return status, answer

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def load(
    port: int,
    lines: Sequence[str],
    clients: int,
    seconds: float,
    per_second: float | None = None,
    *,
    path: str = PATH,
    body: Callable[[str], object] = lambda line: {"text": line},
) -> tuple[list[float], dict[int, int], float]:
    """The times of all answers with status 200, how many had each status, and how long it took.

    Without `per_second` each client asks again as soon as it is answered.
    """
    times: list[float] = []
    statuses: dict[int, int] = {}
    begun = time.perf_counter()
    ends = begun + seconds
    pause = clients / per_second if per_second else 0.0

    async def one(number: int) -> None:
        client, place = Client(port), number * 37
        await asyncio.sleep(pause * number / clients)
        while (now := time.perf_counter()) < ends:
            status, _ = await client.post(path, body(lines[place % len(lines)]))
            if status == 200:
                times.append(time.perf_counter() - now)
            statuses[status] = statuses.get(status, 0) + 1
            place += 1
            await asyncio.sleep(max(0.0, now + pause - time.perf_counter()))
        client.close()

    await asyncio.gather(*(one(number) for number in range(clients)))
    return times, statuses, time.perf_counter() - begun


def offline(translator: Any, lines: Sequence[str], seconds: float) -> float:
    """Lines a second of a `Translator` in this process, in large batches."""
    done, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        part = [lines[(done + place) % len(lines)] for place in range(512)]
        done += len(list(translator.texts(part)))
    return done / (time.perf_counter() - begun)


@dataclass
class Measured:
    """The answers to one load, of all rounds."""

    times: list[float] = field(default_factory=list)
    statuses: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, times: Sequence[float], statuses: Mapping[int, int], seconds: float) -> float:
        """Add a round. Returns its answers a second."""
        self.times += times
        for status, count in statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + count
        self.seconds += seconds
        return len(times) / seconds

    def show(self, name: str) -> None:
        print(
            f"{name:22} {len(self.times) / self.seconds:8.1f} answers/s"
            f"   p50 {1000 * statistics.median(self.times):7.1f} ms   p99 {1000 * p99_of(self.times):7.1f} ms"
            f"   statuses {self.statuses}"
        )


def loads(lines: Sequence[str], rounds: int, seconds: float) -> Found:
    """Offline decoding and the server under three loads, in turns, for the speed of a machine changes."""
    from regard.verbs.shared.runtime import DecodingRuntime
    from regard.verbs.translate import Translator

    translator = Translator(runtime=DecodingRuntime(threads=1))
    alone, full, half = Measured(), Measured(), Measured()
    rates, shares, ratios = [], [], []
    with Server("--no-access-log") as server:
        offline(translator, lines, 1.0)
        asyncio.run(load(server.port, lines, CLIENTS, 2.0))
        for _ in range(rounds):
            rates.append(offline(translator, lines, seconds))
            throughput = full.add(*asyncio.run(load(server.port, lines, CLIENTS, seconds)))
            shares.append(throughput / rates[-1])
            alone.add(*(one := asyncio.run(load(server.port, lines, 1, seconds))))
            half.add(*(some := asyncio.run(load(server.port, lines, CLIENTS // 2, seconds, throughput / 2))))
            ratios.append(p99_of(some[0]) / p99_of(one[0]))
    print(f"{'offline, one process':22} {statistics.median(rates):8.1f} lines/s")
    alone.show("one client")
    full.show(f"{CLIENTS} clients")
    half.show("half of that rate")
    share, ratio = statistics.median(shares), statistics.median(ratios)
    return (
        f"throughput / offline: {share:.2f}   p99 at half load / alone: {ratio:.2f}   (medians of {rounds}"
        " rounds)",
        {
            "clients": CLIENTS,
            "offline": statistics.median(rates),
            "rate": len(full.times) / full.seconds,
            "share": share,
            "p99_half_ms": 1000 * p99_of(half.times),
            "p99_alone_ms": 1000 * p99_of(alone.times),
            "p99_ratio": ratio,
        },
    )


def p99_of(times: Sequence[float]) -> float:
    """The time within which 99 of 100 answers come."""
    return sorted(times)[int(0.99 * len(times))]


def first_answer(rounds: int) -> Found:
    """The time from the start of the server's process to its first answer, and that of importing torch."""
    answered, imported = [], []
    for number in range(-1, rounds):  # the first fills the system's cache of files
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
        torch, begun = time.perf_counter() - begun, time.perf_counter()
        with Server("--no-access-log", threads=()) as server:
            status, _ = asyncio.run(Client(server.port).post(PATH, {"text": "Where is the station?"}))
            first = time.perf_counter() - begun
        assert status == 200
        if number >= 0:
            answered.append(first)
            imported.append(torch)
    first, torch = statistics.median(answered), statistics.median(imported)
    return (
        f"first answer after start {first:.2f} s, import of torch {torch:.2f} s: {first - torch:+.2f} s;"
        f" +1 s is the aim (medians of {rounds})",
        {"first": first, "torch": torch},
    )


def long_text(lines: Sequence[str], rounds: int) -> Found:
    """The time of a text of many sentences with two workers against one."""
    text = "\n".join(lines[:SENTENCES])
    times: dict[int, list[float]] = {1: [], 2: []}
    busiest: dict[int, list[float]] = {1: [], 2: []}
    with ExitStack() as stack:
        servers = {n: stack.enter_context(Server("--no-access-log", "--workers", str(n))) for n in (1, 2)}
        for number in range(rounds):
            for workers in (1, 2) if number % 2 else (2, 1):
                before, begun = cpu_seconds(servers[workers]), time.perf_counter()
                status, _ = asyncio.run(Client(servers[workers].port).post(PATH, {"text": text}))
                assert status == 200
                times[workers].append(time.perf_counter() - begun)
                after = cpu_seconds(servers[workers])
                busiest[workers].append(max(after[each] - before[each] for each in before))
    by_time, by_cpu = (
        [first / second for first, second in zip(each[1][1:], each[2][1:], strict=True)]
        for each in (times, busiest)
    )
    return (
        f"{SENTENCES} sentences: {statistics.median(times[1]):.2f} s with one worker,"
        f" {statistics.median(times[2]):.2f} s with two; ratio {statistics.median(by_time):.2f},"
        f" of the busiest process's CPU time {statistics.median(by_cpu):.2f}",
        {"sentences": SENTENCES, "ratio": statistics.median(by_time)},
    )


def cpu_seconds(server: Server) -> dict[int, float]:
    """The CPU time of each worker."""
    children = psutil.Process(server.process.pid).children()
    return {each.pid: sum(each.cpu_times()[:2]) for each in children}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seconds for each figure")
    options = parser.parse_args()
    quick, record = options.quick, record_of("bench-serve", parser, options)
    lines = list(read_lines(locate("tatoeba_en_de:test.en", Path(), once=True)))[:2000]
    parts: dict[str, Callable[[], Found]] = {
        "first_answer": lambda: first_answer(1 if quick else STARTS),
        "loads": lambda: loads(lines, 1 if quick else ROUNDS, QUICK_SECONDS if quick else SECONDS),
        "long_text": lambda: long_text(lines, 3 if quick else LONG_ROUNDS),
    }
    for name, part in parts.items():
        said, figures = part()
        print(said)
        record(name, figures)


if __name__ == "__main__":
    main()
