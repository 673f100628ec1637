"""`regard serve` beside other servers, all with the included model's weights and one thread each.

    python -m benchmarks.serve_peers [--fastapi PYTHON] [--libretranslate PYTHON] [--quick]

PYTHON is that of an environment with fastapi, uvicorn, ctranslate2 and tokenizers, or with libretranslate; by
default those of `make bench-serve-install`. What is not there is named and not measured. Every round measures
each server with one client and with 64, with other lines than before; the other servers wait meanwhile. The
table has medians over rounds.
"""

import argparse
import asyncio
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.common.checks import record_of
from benchmarks.common.machine import machine, now
from benchmarks.serve import CLIENTS, Client, Server, load
from regard.data.files import locate, read_lines

SERVERS = Path(__file__).parent / "servers"
INSTALLED = Path(__file__).parent.parent / "build" / "benchmarks" / "peers"  # by `make bench-serve-install`
NEEDED = {
    "fastapi": ("fastapi", "uvicorn", "ctranslate2", "tokenizers"),
    "libretranslate": ("libretranslate",),
}
ROUNDS, SECONDS, QUICK_SECONDS = 5, 8.0, 2.0
COMPARED = 200  # lines whose translations are compared
START_SECONDS = 90


@dataclass(kw_only=True)
class Peer:
    """A server: its port, the path and body of a request, the text in an answer, and what was measured."""

    name: str
    port: int
    path: str
    body: Callable[[str], object]
    text: Callable[[Any], str]
    rates: dict[int, list[float]] = field(default_factory=lambda: {1: [], CLIENTS: []})
    times: dict[int, list[float]] = field(default_factory=lambda: {1: [], CLIENTS: []})

    async def translation(self, line: str) -> str:
        client = Client(self.port)
        status, content = await client.post(self.path, self.body(line))
        client.close()
        assert status == 200, (self.name, content)
        return self.text(json.loads(content))

    def measure(self, lines: Sequence[str], clients: int, seconds: float) -> None:
        """A round with so many clients."""
        found = load(self.port, lines, clients, seconds, path=self.path, body=self.body)
        times, statuses, took = asyncio.run(found)
        assert set(statuses) == {200}, (self.name, statuses)
        self.rates[clients].append(len(times) / took)
        self.times[clients] += times


def started(stack: ExitStack, script: str, python: Path, *arguments: str) -> int:
    """The port of a server in a process of its own, which ends with the stack."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), str(SERVERS / script), *arguments, str(port)]
    environment["OMP_NUM_THREADS"] = "1"
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    stack.callback(process.wait, 30)
    stack.callback(process.terminate)
    ends = time.monotonic() + START_SECONDS
    while True:
        assert process.poll() is None, f"{script} has ended"
        assert time.monotonic() < ends, f"{script} did not start"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.2)
        else:
            return port


def peers(stack: ExitStack, options: argparse.Namespace, folder: Path) -> list[Peer]:
    """All servers, regard's first."""
    server = stack.enter_context(Server("--no-access-log"))
    found = [
        Peer(
            name="`regard serve`",
            port=server.port,
            path="/api/v1/translate",
            body=lambda line: {"text": line},
            text=lambda answer: answer["translations"][0]["text"],
        )
    ]
    if options.fastapi:
        _export("ctranslate2", folder / "ct2")
        port = started(stack, "fastapi_server.py", options.fastapi, str(folder / "ct2"))
        found.append(
            Peer(
                name="FastAPI, a call of CTranslate2 for each request",
                port=port,
                path="/translate",
                body=lambda line: {"text": line},
                text=lambda answer: answer["text"],
            )
        )
    if options.libretranslate:
        packages, package = folder / "argos" / "packages", folder / "en-de.argosmodel"
        _export("argos", package)
        with zipfile.ZipFile(package) as archive:
            archive.extractall(packages)
        port = started(stack, "libretranslate_server.py", options.libretranslate, str(packages))
        found.append(
            Peer(
                name="LibreTranslate, without splitting into sentences",
                port=port,
                path="/translate",
                body=lambda line: {"q": line, "source": "en", "target": "de"},
                text=lambda answer: answer["translatedText"],
            )
        )
    return found


def _export(kind: str, out: Path) -> None:
    """Write the included model for another engine."""
    command = [sys.executable, "-m", "regard", "export", "en-de", "--to", kind, "--out", str(out)]
    subprocess.run(command, check=True, capture_output=True)


def installed(name: str, given: Path | None) -> Path | None:
    """The Python of a peer, if it has the packages; says what to install if it has not."""
    python = given or INSTALLED / name / "bin" / "python"
    missing = list(NEEDED[name])
    if python.exists():
        program = (
            "import importlib.util, sys; print(*[n for n in sys.argv[1:] if not importlib.util.find_spec(n)])"
        )
        done = subprocess.run([python, "-c", program, *missing], capture_output=True, text=True, check=True)
        missing = done.stdout.split()
    if missing:
        print(f"{name} is not measured: {python} lacks {', '.join(missing)}; make bench-serve-install")
        return None
    return python


async def agreement(found: Sequence[Peer], lines: Sequence[str]) -> list[float]:
    """The share of lines for which each server has regard's translation."""
    texts = [[re.sub(r"\s+", " ", await peer.translation(line)) for line in lines] for peer in found]
    return [sum(map(str.__eq__, texts[0], each)) / len(lines) for each in texts]


def figures(peer: Peer, first: Peer, agrees: float) -> dict[str, Any]:
    """What was measured with one client and with many: rates, times, ratios to the first peer."""
    found: dict[str, Any] = {"equal": agrees}
    for clients, name in ((1, "one"), (CLIENTS, "many")):
        times = sorted(peer.times[clients])
        ratios = [own / other for own, other in zip(peer.rates[clients], first.rates[clients], strict=True)]
        found[name] = {
            "rate": statistics.median(peer.rates[clients]),
            "ratio": statistics.median(ratios),
            "p50_ms": 1000 * statistics.median(times),
            "p99_ms": 1000 * times[int(0.99 * len(times))],
        }
    return found


def row(peer: Peer, first: Peer, agrees: float) -> str:
    measured, cells = figures(peer, first, agrees), [peer.name]
    for each in (measured["one"], measured["many"]):
        cells += [f"{each['rate']:.1f}", f"{each['ratio']:.2f}"]
        cells += [f"{each['p50_ms']:.0f}, {each['p99_ms']:.0f} ms"]
    return f"| {' | '.join(cells)} | {100 * agrees:.1f} % |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in NEEDED:
        parser.add_argument(f"--{name}", type=Path, metavar="PYTHON")
    parser.add_argument("--quick", action="store_true", help="a few seconds for each figure")
    options = parser.parse_args()
    record = record_of("bench-serve-peers", parser, options)
    for name in NEEDED:
        setattr(options, name, installed(name, getattr(options, name)))
    seconds = QUICK_SECONDS if options.quick else SECONDS
    lines = list(read_lines(locate("tatoeba_en_de:test.en", Path(), once=True)))[:2000]
    own = machine()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found = peers(stack, options, folder)
        agrees = asyncio.run(agreement(found, lines[:COMPARED]))
        for number in range(1 if options.quick else ROUNDS):
            for peer in [*found[number % len(found) :], *found[: number % len(found)]]:
                for clients in (1, CLIENTS):
                    peer.measure(lines[300 * number :], clients, seconds)
    print(f"{now()}; {own['cpu']}, {own['cores']} cores; load before {own['load_before']}\n")
    many = f"{CLIENTS} clients"
    print(f"| server | one client, answers/s | ratio | p50, p99 | {many} | ratio | p50, p99 | equal |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for peer, agree in zip(found, agrees, strict=True):
        print(row(peer, found[0], agree))
        record(peer.name.partition(",")[0].strip("`"), figures(peer, found[0], agree))


if __name__ == "__main__":
    main()
