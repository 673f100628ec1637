"""`make crash`: every call of a saving killed and failed, 200 kills, 50 signals; a line of figures each.

    python tests/long/crash.py [--kills 200] [--signals 50]

What CI does ten times is done here to the figures that docs/reliability.md promises. Exit code 1 where one
is missed.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent.parent))

from benchmarks.common.checks import Record, record_of

HERE = Path(__file__).parent
CRASH = HERE.parent / "crash"
FAULTS = ("kill", "torn", "ENOSPC", "EIO", "EACCES", "EROFS")
KILLS_A_RUN, MAX_STEPS = 10, 120
FAST_ENOUGH = 5.0  # seconds from a signal to the end of the process
LONG_RUN = ["training.max_steps=100000", "training.validate_every=100000", "training.report_every=1"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--signals", type=int, default=50)
    options = parser.parse_args()
    record = record_of("crash", parser, options)
    os.environ["OMP_NUM_THREADS"] = "1"
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        recipe = Path(folder) / "recipe.toml"
        recipe.write_text(recipe_text(), "utf-8")
        kept = [
            every_call(Path(folder), record),
            random_kills(recipe, Path(folder), options.kills, record),
            signals(recipe, Path(folder), options.signals, record),
        ]
    sys.exit(not all(kept))


def recipe_text() -> str:
    """The recipe of the test in CI: shuffling, dropout, accumulation, a moving average."""
    sys.path.insert(0, str(CRASH))
    from test_run_killed import RECIPE

    return RECIPE


def every_call(folder: Path, record: Record) -> bool:
    """One saving that dies or fails at each of its calls to the disk, in each way."""
    points, failed = {}, []
    for fault in FAULTS:
        where = folder / fault
        where.mkdir()
        command = [sys.executable, str(CRASH / "faults.py"), str(where), fault]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            failed.append(f"{fault}: {done.stderr.strip()}")
        points[fault] = int(done.stdout or 0)
    counted = ", ".join(f"{fault} {count}" for fault, count in points.items())
    lost = f"; LOST: {' | '.join(failed)}" if failed else ""
    print(
        f"crash: a saving at {sum(points.values())} points ({counted}): {len(failed)} lost{lost}", flush=True
    )
    record("every_call", {"points": sum(points.values()), "lost": len(failed)})
    return not failed


def random_kills(recipe: Path, folder: Path, kills: int, record: Record) -> bool:
    """Runs of one process and of two, each killed ten times, end in the bits of an uninterrupted one."""
    began, same, runs = time.monotonic(), 0, -(-kills // KILLS_A_RUN)
    for run in range(runs):
        where = folder / f"run {run}"
        where.mkdir()
        script = [sys.executable, str(CRASH / "killed_at_random.py"), str(recipe), str(where)]
        workers = 1 + run % 2
        numbers = [str(number) for number in (KILLS_A_RUN, MAX_STEPS, run + 1, workers)]
        done = subprocess.run([*script, *numbers], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            uninterrupted, killed = json.loads(done.stdout)["digests"]
            same += uninterrupted == killed
        else:
            print(done.stderr, file=sys.stderr)
    seconds = time.monotonic() - began
    print(
        f"crash: {runs * KILLS_A_RUN} SIGKILLs in {runs} runs, every other one of two workers: {same} of"
        f" {runs} end in the bits of an uninterrupted run ({seconds:.0f} s)",
        flush=True,
    )
    record("random_kills", {"kills": runs * KILLS_A_RUN, "runs": runs, "same": same})
    return same == runs


def signals(recipe: Path, folder: Path, count: int, record: Record) -> bool:
    """Runs that are asked to stop: the step at which they say they did is the one that is saved."""
    draw, lost, slowest, codes = random.Random(1), 0, 0.0, []
    for number in range(count):
        asked, code = ((signal.SIGTERM, 143), (signal.SIGINT, 130))[number % 2]
        out = folder / f"asked {number}"
        seconds, found, step, reported = stopped(recipe, out, asked, draw.uniform(0.0, 1.0))
        slowest = max(slowest, seconds)
        codes.append(found == code)
        lost += f"stopped at step {step}" not in reported
    print(
        f"crash: {count} signals: {lost} steps lost, {codes.count(False)} wrong exit codes, slowest stop"
        f" {slowest:.1f} s",
        flush=True,
    )
    wrong = codes.count(False)
    record("signals", {"signals": count, "lost": lost, "wrong_codes": wrong, "slowest": slowest})
    return lost == 0 and all(codes) and slowest <= FAST_ENOUGH


def stopped(recipe: Path, out: Path, asked: signal.Signals, delay: float) -> tuple[float, int, int, str]:
    """Seconds until a run ended that was asked to, its exit code, the step on disk, what it said."""
    from regard.weights.checkpoint import RunFolder

    command = [sys.executable, "-m", "regard", "train", str(recipe), "--out", str(out), "--threads", "1"]
    command += [part for override in LONG_RUN for part in ("--set", override)]
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        while "step " not in process.stderr.readline():
            assert process.poll() is None, "it did not begin"
        time.sleep(delay)
        began = time.monotonic()
        process.send_signal(asked)
        reported = process.communicate(timeout=60)[1]
        seconds = time.monotonic() - began
    return seconds, process.returncode, RunFolder(out).latest().step, reported


if __name__ == "__main__":
    main()
