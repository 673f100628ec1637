"""`make ranks`: processes under torchrun killed at random, FSDP2 beside DDP, memory; a line of figures each.

    python tests/long/ranks.py [--kills 20] [--steps 50]

What CI does once is done here to the figures that docs/reliability.md promises. Exit code 1 where one is
missed.
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

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "distributed"))
sys.path.insert(0, str(HERE.parent.parent))

from test_torchrun import RECIPE, TORCHRUN, train, workers_of  # noqa: E402

from benchmarks.common.checks import Record, record_of  # noqa: E402
from regard.weights.checkpoint import RunFolder, checkpoint_digest  # noqa: E402

STEPS_A_KILL = 10
FAST_ENOUGH = 30.0  # seconds from a kill until the other process has ended too
LEAN_ENOUGH = 0.75  # of the memory of a process that has the whole model
NEAR_ENOUGH = 1e-5  # of all weights, after training by either strategy


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=50)
    options = parser.parse_args()
    record = record_of("ranks", parser, options)
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        recipe = Path(name) / "recipe.toml"
        recipe.write_text(RECIPE, "utf-8")
        kept = [
            random_kills(recipe, Path(name), options.kills, "ddp", record),
            random_kills(recipe, Path(name), options.kills, "fsdp2", record),
            strategies(recipe, Path(name), options.steps, record),
            memory(Path(name), record),
        ]
    sys.exit(not all(kept))


def random_kills(recipe: Path, folder: Path, kills: int, strategy: str, record: Record) -> bool:
    """A run whose processes are killed at random and restarted by torchrun, and an uninterrupted run."""
    began = time.monotonic()
    sets = [f"training.max_steps={STEPS_A_KILL * (kills + 1)}", f"distributed.strategy={strategy}"]
    steps = [part for each in sets for part in ("--set", each)]
    alone, killed = folder / f"uninterrupted-{strategy}", folder / f"killed-{strategy}"
    subprocess.run(
        [*TORCHRUN, "-m", "regard", *train(recipe, alone, *steps)], check=True, capture_output=True
    )
    draw, slowest = random.Random(1), 0.0
    command = [*TORCHRUN, "--max-restarts", str(kills), "-m", "regard", *train(recipe, killed, *steps)]
    with (folder / "reported").open("w+") as reported, subprocess.Popen(command, stderr=reported) as process:
        for kill in range(kills):
            wait_for_step(killed, int((kill + draw.random()) * STEPS_A_KILL), process)
            time.sleep(draw.uniform(0, 0.2))
            slowest = max(slowest, killed_and_restarted(process, draw.randrange(2)))
        code = process.wait()
        reported.seek(0)
        errors = reported.read().count("\nerror: ")
    same = code == 0 and checkpoint_digest(RunFolder(killed).latest()) == checkpoint_digest(
        RunFolder(alone).latest()
    )
    print(
        f"ranks: {strategy}, {kills} SIGKILLs of random processes under torchrun: exit code {code},"
        f" {'the bits' if same else 'NOT the bits'} of an uninterrupted run, slowest end of the others"
        f" {slowest:.1f} s, {errors} error lines ({time.monotonic() - began:.0f} s)",
        flush=True,
    )
    record(f"killed_{strategy}", {"kills": kills, "code": code, "same": same, "slowest": slowest})
    return same and slowest <= FAST_ENOUGH and errors <= kills


def wait_for_step(run: Path, step: int, process: subprocess.Popen[bytes]) -> None:
    """Until the run has reported `step` and both of its processes are there."""
    while True:
        assert process.poll() is None, "it finished before it was killed often enough"
        records = RunFolder(run).metrics() if (run / "metrics.jsonl").exists() else []
        if any(record["step"] >= step for record in records[-1:]) and len(workers_of(process.pid)) == 2:
            return
        time.sleep(0.01)


def killed_and_restarted(process: subprocess.Popen[bytes], rank: int) -> float:
    """Seconds from the kill of a process until the others of its attempt are gone."""
    before = workers_of(process.pid)
    began = time.monotonic()
    os.kill(before[rank], signal.SIGKILL)
    while set(workers_of(process.pid).values()) & set(before.values()):
        if time.monotonic() - began > 2 * FAST_ENOUGH:
            break  # it hangs, which the reported seconds show
        time.sleep(0.01)
    return time.monotonic() - began


def strategies(recipe: Path, folder: Path, steps: int, record: Record) -> bool:
    """The weights that DDP and FSDP2 come to in so many updates, without dropout."""
    began, weights = time.monotonic(), []
    for strategy in ("ddp", "fsdp2"):
        sets = [f"training.max_steps={steps}", "model.dropout=0.0", f"distributed.strategy={strategy}"]
        more = [part for each in sets for part in ("--set", each)]
        command = [*TORCHRUN, "-m", "regard", *train(recipe, folder / strategy, *more)]
        subprocess.run(command, check=True, capture_output=True)
        weights.append(RunFolder(folder / strategy).latest().read_tensors("model.safetensors"))
    farthest = max(float((weights[0][name] - weights[1][name]).abs().max()) for name in weights[0])
    print(
        f"ranks: FSDP2 and DDP, {steps} updates of two processes: weights differ by {farthest:.1e} at"
        f" the most ({time.monotonic() - began:.0f} s)",
        flush=True,
    )
    record("strategies", {"updates": steps, "difference": farthest})
    return farthest <= NEAR_ENOUGH


def memory(folder: Path, record: Record) -> bool:
    """The memory of two processes that train a model of 44 M parameters, in a new and in a resumed run."""
    peaks: dict[str, int] = {}
    script = [sys.executable, str(HERE / "ranks_memory.py")]
    for strategy in ("ddp", "fsdp2"):
        for what, steps in (("new", 2), ("resumed", 3)):
            where = [str(folder / "memory"), (folder / f"meeting-{strategy}-{what}").as_uri()]
            processes = [
                subprocess.Popen(
                    [*script, *where, str(rank), "2", strategy, str(steps)],
                    stdout=subprocess.PIPE,
                    text=True,
                    env=os.environ | {"MALLOC_MMAP_THRESHOLD_": "100000"},  # what is freed is given back
                )
                for rank in range(2)
            ]
            found = json.loads(processes[0].communicate()[0])
            assert processes[1].wait() == 0
            peaks[f"{strategy} {what}"] = found["peak"]
            print(f"ranks: memory of a process in MB, {strategy}, {what} run of two: {found}", flush=True)
    record("memory", {"peaks_mb": peaks})
    return peaks["fsdp2 resumed"] <= LEAN_ENOUGH * peaks["ddp resumed"]


if __name__ == "__main__":
    main()
