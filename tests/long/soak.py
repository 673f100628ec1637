"""`make soak`: training, translating and serving for long; how much memory grew, a line of figures each.

    python tests/long/soak.py [--minutes 10] [--only PART]

The memory that a process has made its own (anonymous, resident) is read each second. In the last fifth of
the time it may be 5 % above the second fifth at most (and 4 MiB, for what the allocator keeps). Exit code 1
where it is more, or where a process ended by itself.
"""

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.common.checks import Record, record_of

TESTS = Path(__file__).parent.parent
SHARE, ROOM = 1.05, 4.0  # of the memory in the second fifth, and MiB
LINES = ["A man is walking his dog.", "", "Two dogs run through the snow.", "x " * 300, "Ein Hund läuft?"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0, help="for each part (10)")
    parser.add_argument("--only", choices=list(PARTS))
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    record = record_of("soak", parser, options)
    kept = [part(name, options.minutes * 60, record) for name in PARTS if options.only in (None, name)]
    sys.exit(not all(kept))


def part(name: str, seconds: float, record: Record) -> bool:
    """Let it work for so long, and tell how its memory went."""
    with tempfile.TemporaryDirectory() as folder, PARTS[name](Path(folder)) as (process, count):
        while count() < BEFORE[name]:  # what it needs to begin, and what it keeps, is not growth
            time.sleep(0.2)
            if process.poll() is not None:
                sys.exit(f"soak: {name}: ended with {process.returncode} before it began")
        began, seen, done = time.monotonic(), [], []
        while time.monotonic() - began < seconds and process.poll() is None:
            seen.append(anonymous_mib(process.pid))
            done.append(count())
            time.sleep(min(1.0, seconds / 50))
    fifth = len(seen) // 5
    if time.monotonic() - began < seconds or done[4 * fifth] == done[-1]:
        print(f"soak: {name}: IT ENDED after {done[-1]:,} {UNITS[name]}", flush=True)
        return False
    early, late = (statistics.mean(seen[fifth * at : fifth * (at + 1)]) for at in (1, 4))
    good = late <= early * SHARE + ROOM
    print(
        f"soak: {name}: {done[-1]:,} {UNITS[name]} in {seconds:.0f} s: {early:.1f} MiB, then {late:.1f} MiB"
        f"{'' if good else ': TOO MUCH'}",
        flush=True,
    )
    record(name, {"done": done[-1], "mib_second_fifth": early, "mib_last_fifth": late})
    return good


def anonymous_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon"))


Started = Iterator[tuple[subprocess.Popen, Callable[[], int]]]


@contextmanager
def training(folder: Path) -> Started:
    """Updates with shuffling, dropout, accumulation, a moving average, savings and validations."""
    sys.path.append(str(TESTS / "crash"))
    from test_run_killed import RECIPE

    recipe, run = folder / "recipe.toml", folder / "run"
    recipe.write_text(RECIPE, "utf-8")
    settings = ["training.max_steps=1000000000", "training.save_every=200", "training.validate_every=400"]
    command = ["train", str(recipe), "--out", str(run), "--threads", "1"]
    command += [part for each in settings for part in ("--set", each)]
    with started(command, stderr=subprocess.DEVNULL) as process:
        yield process, lambda: _last_step(run / "metrics.jsonl")


def _last_step(metrics: Path) -> int:
    if not metrics.exists():
        return 0
    with metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - 2000))
        steps = [json.loads(line)["step"] for line in file.read().split(b"\n")[1:-1]]
    return max(steps, default=0)


@contextmanager
def translating(folder: Path) -> Started:
    """Lines without end through the included model."""
    command = ["translate", "--beam-size", "2", "--max-new-tokens", "20", "--threads", "1"]
    with started(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        read = [0]
        threading.Thread(target=_feed, args=(process,), daemon=True).start()

        def drain() -> None:
            for _ in process.stdout:
                read[0] += 1

        threading.Thread(target=drain, daemon=True).start()
        yield process, lambda: read[0]


def _feed(process: subprocess.Popen) -> None:
    try:
        for number in itertools.count():
            process.stdin.write(f"{LINES[number % len(LINES)]} {number}\n".encode())
    except (BrokenPipeError, ValueError):
        return


@contextmanager
def serving(folder: Path) -> Started:
    """Looks at ever new texts, with all that the page asks for."""
    with started(
        ["look", "--no-browser", "--port", "0", "--threads", "1"], stderr=subprocess.PIPE
    ) as process:
        url = next(
            word for line in process.stderr for word in line.decode().split() if word.startswith("http")
        )
        asked = [0]
        threading.Thread(target=_ask, args=(url.rstrip("/"), asked), daemon=True).start()
        yield process, lambda: asked[0]


def _ask(url: str, asked: list[int]) -> None:
    for number in itertools.count():
        body = json.dumps({"text": f"A dog runs {number} times."}).encode()
        headers = {"Content-Type": "application/json", "Origin": url.rpartition("/")[0]}
        try:
            request = urllib.request.Request(f"{url}/api/look", body, headers)
            with urllib.request.urlopen(request) as answer:
                found = json.load(answer)
            for path in found["summary"]["resources"]:
                with urllib.request.urlopen(f"{url}/api/look/{found['id']}/{path}") as answer:
                    answer.read()
        except OSError:
            return
        asked[0] = number + 1


@contextmanager
def started(command: list[str], **pipes: object) -> Iterator[subprocess.Popen]:
    def interruptible() -> None:  # a job in the background ignores SIGINT otherwise
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with subprocess.Popen(
        [sys.executable, "-m", "regard", *command], preexec_fn=interruptible, **pipes
    ) as process:
        try:
            yield process
        finally:
            process.kill()
            with suppress(OSError):
                if process.stdin:
                    process.stdin.close()


PARTS = {"training": training, "translating": translating, "serving": serving}
BEFORE = {"training": 1, "translating": 1, "serving": 300}
UNITS = {"training": "updates", "translating": "lines", "serving": "looks"}


if __name__ == "__main__":
    main()
