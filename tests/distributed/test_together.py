"""Two processes train as one with either strategy: the same loss, gradient, state and data."""

import json
import shutil
import warnings
from collections import Counter
from pathlib import Path

import pytest
import torch

from regard.distributed.group import SINGLE
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from regard.weights.shards import shard_name, shard_names
from regard.weights.tensors import read_tensors
from tests.warm_process import run_together

SCRIPT = Path(__file__).with_name("train_together.py")
STEPS = 20  # two epochs and a little
FLOAT = {"steps": 1}
DOUBLE = {  # an epoch: seven batches of seven rows, one of one
    "steps": 8,
    "double": True,
    "average_last": 2,
}
SHARDED = {"strategy": "fsdp2"}
DROPOUT = {"dropout": 0.3, "steps": 6}
COLLAPSES = {"steps": 8, "collapses": True}
FILES = ["model.safetensors", "optimizer.safetensors", "average.safetensors"]
pytestmark = pytest.mark.filterwarnings("default:a process died")


def together(folder, size, runs):
    """Trains the runs in `size` processes, one after the other; returns the results of each process.

    PyTorch's CPU collectives once ended a process by a signal, and not again in three hundred such runs: this
    becomes a warning with its place, and the runs are repeated from the same files.
    """
    before = shutil.copytree(folder, folder.with_name(f"{folder.name}-before"))
    outputs, codes = attempt(folder, size, runs)
    if min(codes) < 0:
        warnings.warn(f"a process died by a signal, {codes}; tried again", stacklevel=1)
        shutil.rmtree(folder)
        shutil.copytree(before, folder)
        outputs, codes = attempt(folder, size, runs)
    shutil.rmtree(before)
    assert codes == [0] * size
    return [json.loads(output) for output in outputs]


def attempt(folder, size, runs):
    rendezvous_url = folder / f"meeting-{len(list(folder.glob('meeting*')))}"
    command = [SCRIPT, folder, rendezvous_url.as_uri()]
    done = run_together(*([*command, rank, size, json.dumps(runs)] for rank in range(size)), timeout=240)
    print(*(each.stderr for each in done))
    return [each.stdout for each in done], [each.returncode for each in done]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("together")


@pytest.fixture(scope="module")
def moving(folder):
    """A run that changes its number of processes twice."""
    return {"steps": STEPS, "log": str(folder / "read.jsonl")}


@pytest.fixture(scope="module")
def alone(folder, moving):
    runs = {
        "one float": FLOAT,
        "one double": DOUBLE,
        "moving": {**moving, "stop": 3},
    }
    return together(folder, 1, runs)[0]


@pytest.fixture(scope="module")
def pair(folder, moving, alone):
    runs = {
        "ddp float": FLOAT,
        "ddp double": DOUBLE,
        "fsdp2 float": FLOAT | SHARDED,
        "fsdp2 double": DOUBLE | SHARDED,
        "ddp dropout": DROPOUT,
        "fsdp2 dropout": DROPOUT | SHARDED,
        "ddp stopped": DROPOUT | {"stop": 3},
        "fsdp2 stopped": DROPOUT | SHARDED | {"stop": 3},
        "mean ddp": FLOAT | {"mean": True},
        "mean fsdp2": FLOAT | SHARDED | {"mean": True},
        "ddp collapsed": DROPOUT | COLLAPSES,
        "fsdp2 collapsed": DROPOUT | SHARDED | COLLAPSES,
        "one double": DOUBLE | SHARDED,  # which is at its end
        "moving": {**moving, **SHARDED, "stop": 11},
    }
    return together(folder, 2, runs)


@pytest.fixture(scope="module")
def again(folder, moving, pair):
    return together(folder, 1, {"moving": moving, "fsdp2 double": DOUBLE})[0]


def tensors(folder, name):
    """All tensors of the last checkpoint, by file and name."""
    checkpoint = RunFolder(folder / name).latest()
    return {
        f"{file} {key}": tensor for file in FILES for key, tensor in checkpoint.read_tensors(file).items()
    }


def test_a_group_of_one_does_not_communicate():
    tensor = torch.ones(3)
    SINGLE.sum_([tensor])
    assert torch.equal(tensor, torch.ones(3))
    assert SINGLE.maximum(7) == 7
    assert SINGLE.broadcast({"a": 1}) == {"a": 1}
    assert SINGLE.all_gather([1]) == [[1]]


def test_values_of_each_process_reach_all(pair):
    assert pair[0]["received"] == pair[1]["received"] == [["ä", 0], ["ä", 1]]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_all_processes_refuse_an_objective_that_is_a_mean(pair, strategy):
    errors = [each[f"mean {strategy}"]["error"] for each in pair]
    assert errors[0] == errors[1]
    assert "mean_of_targets returned a Loss whose total is a mean" in errors[0]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
@pytest.mark.parametrize(("width", "error"), [("float", 1e-6), ("double", 1e-12)])
def test_loss_and_gradient_are_those_of_one_process(folder, alone, pair, strategy, width, error):
    """Adam's first moment after one update is a tenth of the gradient; after an epoch states still agree."""
    one, two = alone[f"one {width}"]["reports"], pair[0][f"{strategy} {width}"]["reports"]
    assert [record["kind"] for record in one] == [record["kind"] for record in two]
    for key in ("loss", "gradient_norm"):  # the loss is also that of the validation
        found = [torch.tensor([record[key] for record in records if key in record]) for records in (one, two)]
        torch.testing.assert_close(*found, rtol=error, atol=error)
    one, two = tensors(folder, f"one {width}"), tensors(folder, f"{strategy} {width}")
    assert one.keys() == two.keys(), "the folders are interchangeable"
    for name in one:
        if "exp_avg" in name:
            torch.testing.assert_close(two[name], one[name], rtol=error, atol=error / 10, msg=name)
        elif width == "double":  # where a gradient is zero but for rounding, Adam makes steps of the rounding
            torch.testing.assert_close(two[name], one[name], rtol=1e-9, atol=1e-9, msg=name)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_the_mean_of_the_last_checkpoints_is_that_of_one_process(alone, pair, strategy):
    one, two = alone["one double"]["reports"][-1], pair[0][f"{strategy} double"]["reports"][-1]
    assert one["kind"] == two["kind"] == "average"
    assert one["of"] == two["of"] == [8, 4]
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-9)


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_where_a_run_has_collapsed_both_processes_go_back(folder, pair, strategy):
    first, other = (found[f"{strategy} collapsed"]["reports"] for found in pair)
    [collapse] = [record for record in first if record["kind"] == "collapse"]
    assert (collapse["at"], collapse["to"]) == (6, 0)
    assert other == [], "the first alone reports"
    rates = [record["learning_rate"] for record in first if record["kind"] == "train"]
    assert rates[6:8] == [rate / 2 for rate in rates[:2]]
    assert RunFolder(folder / f"{strategy} collapsed").latest().step == COLLAPSES["steps"]


def test_both_processes_have_the_same_weights(pair):
    for name in (name for name in pair[0] if name.startswith("ddp")):  # what is sharded is held once
        assert pair[0][name]["weights"] == pair[1][name]["weights"], name


def test_sharded_each_process_has_a_part_of_the_weights(pair):
    whole = pair[0]["ddp float"]["held"]
    assert pair[1]["ddp float"]["held"] == whole
    parts = [process["fsdp2 float"]["held"] for process in pair]
    assert sum(parts) == whole
    assert max(parts) < 0.6 * whole


def test_the_shares_of_a_batch_are_of_unequal_size(folder, again):
    """With equal sizes, a sum of means would give the same result and the test could not fail."""
    read = [json.loads(line) for line in (folder / "read.jsonl").read_text().splitlines()]
    assert {rank for _, rank, _, _ in read} == {0, 1}
    counts = [
        [number for _, rank, _, number in read if rank == which][first:][:8]
        for which, first in ((0, 3), (1, 0))
    ]
    assert counts[0] != counts[1]
    assert 0 in counts[1], "a batch of one row leaves the second process without a share"


def test_each_process_writes_its_rows(folder, pair):
    checkpoint = RunFolder(folder / "fsdp2 float").latest()
    for file in FILES:
        names = shard_names(file, checkpoint.names)
        assert names == [shard_name(file, number, 2) for number in (1, 2)]
        whole = sum(tensor.numel() for tensor in checkpoint.read_tensors(file).values())
        shards = [read_tensors(checkpoint.file(name)) for name in names]
        sizes = [sum(tensor.numel() for tensor in shard.values()) for shard in shards]
        assert sum(sizes) == whole
        assert max(sizes) < 0.6 * whole
        assert file not in checkpoint.names
    best = RunFolder(folder / "fsdp2 float").best()
    assert best.names == shard_names("model.safetensors", best.names)


@pytest.mark.parametrize(
    ("size", "wanted"), [(1, DOUBLE), (2, DOUBLE), (3, DOUBLE | SHARDED)], ids=["one", "ddp", "fsdp2"]
)
def test_a_sharded_checkpoint_is_the_same_in_any_other_processes(folder, pair, size, wanted):
    """They read it and write it again. For three processes, the rows of many tensors are not divisible."""
    name = f"again in {size}"
    shutil.copytree(folder / "fsdp2 double", folder / name)
    together(folder, size, {name: wanted | {"again": True}})
    files = RunFolder(folder / name).latest().names
    assert (FILES[0] in files) == (size < 3)
    assert not [file for file in files if "of-00002" in file]
    before, after = tensors(folder, "fsdp2 double"), tensors(folder, name)
    assert before.keys() == after.keys()
    for key, tensor in before.items():
        assert torch.equal(after[key], tensor), key


def test_stopped_and_resumed_they_end_in_the_same_bits(folder, pair):
    stopped = {"ddp stopped": DROPOUT, "fsdp2 stopped": DROPOUT | SHARDED}
    assert [RunFolder(folder / name).latest().step for name in stopped] == [3, 3]
    together(folder, 2, stopped)
    for strategy in ("ddp", "fsdp2"):
        ends = [
            checkpoint_digest(RunFolder(folder / f"{strategy} {how}").latest())
            for how in ("dropout", "stopped")
        ]
        assert ends[0] == ends[1]


def test_a_checkpoint_is_the_same_bits_for_one_process_and_for_two_by_halves(alone, pair, again):
    assert pair[0]["one double"]["weights"] == alone["one double"]["weights"]
    assert again["fsdp2 double"]["weights"] == pair[0]["fsdp2 double"]["weights"]


def test_from_one_process_to_two_and_back_each_example_is_read_once_an_epoch(folder, again):
    read = [json.loads(line) for line in (folder / "read.jsonl").read_text().splitlines()]
    for epoch in (0, 1):
        lines = Counter(line for number, _, lines, _ in read if number == epoch for line in lines)
        assert lines == Counter(range(1, 51)), epoch
    assert len(read) > STEPS, "two read at once"
    assert RunFolder(folder / "moving").latest().step == STEPS
