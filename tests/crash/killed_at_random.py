"""Trains a recipe in forked children that are killed at random times, until one finishes.

    killed_at_random.py RECIPE FOLDER KILLS STEPS SEED WORKERS

Started by test_run_killed.py, outside pytest: forks are cheap here, with PyTorch imported once.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import torch
import torch._dynamo  # optimisers import it when they are made: once, here

from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder, checkpoint_digest

SPARE = 3  # parts of a run after the last kill, which on a busy machine falls late


def start(recipe: str, out: Path, workers: int) -> int:
    """Starts a child that trains; returns its process id. Its exit code is 0 when training is finished."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        train(recipe, out=out, threads=1, workers=workers)
        code = 0
    finally:
        os._exit(code)


def wait_for_step(child: int, metrics: Path, step: int) -> None:
    """Waits until the child has reported `step`."""
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        lines = metrics.read_text().splitlines() if metrics.exists() else []
        if any(json.loads(line)["step"] >= step for line in lines[-1:] if line.endswith("}")):
            return
        time.sleep(0.001)
    raise AssertionError(f"finished before step {step}")


def main(recipe: str, folder: Path, kills: int, max_steps: int, seed: int, workers: int) -> None:
    torch.set_num_threads(1)
    assert os.waitpid(start(recipe, folder / "uninterrupted", workers), 0)[1] == 0
    draw = random.Random(seed)
    steps = []
    for kill in range(kills):
        child = start(recipe, folder / "killed", workers)
        step = int((kill + draw.random()) * max_steps / (kills + SPARE))
        wait_for_step(child, folder / "killed" / "metrics.jsonl", step)
        time.sleep(draw.uniform(0, 0.05))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
        checkpoint = RunFolder(folder / "killed").latest()
        steps.append(checkpoint.step if checkpoint else None)
    assert os.waitpid(start(recipe, folder / "killed", workers), 0)[1] == 0
    digests = [checkpoint_digest(RunFolder(folder / name).latest()) for name in ("uninterrupted", "killed")]
    print(json.dumps({"steps": steps, "digests": digests}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
