"""Two processes train as one: the same gradient, the same weights in both, and they resume to the bit."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from regard.distributed.group import SINGLE
from regard.weights.checkpoint import RunFolder, digest

SCRIPT = Path(__file__).with_name("train_together.py")


def together(folder, size, *, stop=0, dropout=0.0):
    """Train a small run in `size` processes; the digest of each one's weights."""
    meeting = folder.with_name(f"{folder.name}-meeting-{size}-{stop}")
    command = [sys.executable, str(SCRIPT), str(folder), str(meeting), str(size), str(stop), str(dropout)]
    processes = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, text=True) for rank in range(size)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * size
    return [json.loads(output) for output in outputs]


def test_a_group_of_one_says_nothing_to_anyone():
    tensor = torch.ones(3)
    SINGLE.sum_([tensor])
    assert torch.equal(tensor, torch.ones(3))
    assert SINGLE.largest(7) == 7
    assert SINGLE.from_first({"a": 1}) == {"a": 1}
    assert SINGLE.all_values([1]) == [[1]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together") / "run"
    return together(folder, 2, dropout=0.3), folder


def test_both_processes_hold_the_same_weights(pair):
    assert pair[0][0]["weights"] == pair[0][1]["weights"]
    assert pair[0][0]["heard"] == pair[0][1]["heard"] == [["ä", 0], ["ä", 1]]


def test_two_processes_learn_what_one_learns(tmp_path):
    """Without dropout only the order of summation differs; the shares of a batch are of unequal size."""
    one, two = together(tmp_path / "one", 1), together(tmp_path / "two", 2)
    losses = [[record["loss"] for record in run[0]["reports"]] for run in (one, two)]
    torch.testing.assert_close(torch.tensor(losses[0]), torch.tensor(losses[1]), rtol=1e-5, atol=1e-6)


def test_two_processes_stopped_and_resumed_end_in_the_same_bits(pair, tmp_path):
    together(tmp_path / "run", 2, stop=3, dropout=0.3)
    assert RunFolder(tmp_path / "run").latest().step == 3
    together(tmp_path / "run", 2, dropout=0.3)
    assert digest(RunFolder(tmp_path / "run").latest()) == digest(RunFolder(pair[1]).latest())
