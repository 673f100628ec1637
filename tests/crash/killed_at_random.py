"""Trains a recipe in forked children that are killed at random moments, until one comes to the end.

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
from regard.weights.checkpoint import RunFolder, digest


def start(recipe: str, out: Path) -> int:
    """The process id of a child that trains; it leaves with exit code 0 when it has come to the end."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        train(recipe, out=out, threads=1)
        code = 0
    finally:
        os._exit(code)


def main(recipe: str, folder: Path, kills: int, seed: int) -> None:
    torch.set_num_threads(1)
    began = time.monotonic()
    assert os.waitpid(start(recipe, folder / "left alone"), 0)[1] == 0
    length = time.monotonic() - began
    draw = random.Random(seed)
    done, steps = 0, []
    while done < kills:
        child = start(recipe, folder / "killed")
        time.sleep(draw.uniform(0.05, 0.6) * length)
        os.kill(child, signal.SIGKILL)
        ended = os.waitpid(child, 0)[1]
        if ended == 0:  # it was faster: what is there now is what a whole run gives
            break
        done += 1
        checkpoint = RunFolder(folder / "killed").latest()
        steps.append(checkpoint.step if checkpoint else None)
    assert os.waitpid(start(recipe, folder / "killed"), 0)[1] == 0
    digests = [digest(RunFolder(folder / name).latest()) for name in ("left alone", "killed")]
    print(json.dumps({"kills": done, "steps": steps, "digests": digests, "seconds": length}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
