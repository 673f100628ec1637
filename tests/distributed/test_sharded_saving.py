"""A process that dies while all save their shards leaves the last checkpoint, from which the run resumes."""

from pathlib import Path

import pytest

from regard.verbs.translate import Translator
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from regard.weights.shards import shard_names
from tests.distributed.test_torchrun import RECIPE, side_by_side, train

SCRIPT = str(Path(__file__).with_name("killed_writer.py"))
SETS = ["training.max_steps=10", "training.validate_every=5", "distributed.strategy=fsdp2"]
MORE = [part for each in SETS for part in ("--set", each)]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    path = tmp_path_factory.mktemp("recipe") / "recipe.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def uninterrupted(recipe):
    """A run of two processes, to the end."""
    codes, caught = side_by_side(*[train(recipe, recipe.parent / "uninterrupted", *MORE)] * 2)
    assert codes == [0, 0], caught
    return RunFolder(recipe.parent / "uninterrupted")


def test_a_run_of_shards_is_used_like_any_other(uninterrupted):
    best = uninterrupted.best()
    assert len(shard_names("model.safetensors", best.names)) == 2
    assert (best.path / "README.md").is_file()
    assert len(list(Translator(uninterrupted.path, threads=1)(["1 2 3", "4"]))) == 2
    kinds = [record["kind"] for record in uninterrupted.metrics()]
    assert kinds.count("validation") == 2


@pytest.mark.parametrize(
    ("when", "rank"),
    [
        ("half", 1),
        pytest.param("before", 0, marks=pytest.mark.nightly),
        pytest.param("before", 1, marks=pytest.mark.nightly),
        pytest.param("after", 0, marks=pytest.mark.nightly),
        pytest.param("after", 1, marks=pytest.mark.nightly),
    ],
)
def test_a_killed_process_leaves_the_last_checkpoint(recipe, uninterrupted, tmp_path, when, rank):
    out = tmp_path / "run"
    command = train(recipe, out, *MORE)
    codes, _ = side_by_side(command, command, program=[SCRIPT, when, str(rank)])
    assert codes[rank] == -9
    assert codes[1 - rank] != 0
    assert RunFolder(out).latest().step == 0
    codes, caught = side_by_side(command, command)
    assert codes == [0, 0], caught
    assert checkpoint_digest(RunFolder(out).latest()) == checkpoint_digest(uninterrupted.latest())
    assert not [path for path in out.rglob(".*") if path.name != ".lock"]
