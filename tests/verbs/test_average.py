"""An average of checkpoints is a model folder like any other."""

import shutil

import pytest
import torch

from regard.errors import FolderError
from regard.verbs.average import average as average_of
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import load_model, model_files_of
from regard.weights.verified_folder import VerifiedFolder


@pytest.fixture
def run(untrained, tmp_path):
    """A run folder with three checkpoints: the weights of a model, times 1, 2 and 6."""
    folder = VerifiedFolder.open(untrained)
    weights = folder.read_tensors("model.safetensors")
    run = RunFolder(tmp_path / "run")
    for step, factor in ((10, 1), (20, 2), (30, 6)):
        scaled = {name: factor * tensor for name, tensor in weights.items()}
        run.save(step, {**model_files_of(folder), "model.safetensors": scaled, "state.json": b"{}"})
    return tmp_path / "run"


@pytest.mark.parametrize(("last", "factor"), [(1, 6), (2, 4), (3, 3)])
def test_the_mean_of_the_last_checkpoints_loads_as_a_model(run, untrained, tmp_path, last, factor):
    path = average_of(run, last=last, out=tmp_path / "mean")
    found, original = load_model(path), load_model(untrained)
    for ours, theirs in zip(found.model.parameters(), original.model.parameters(), strict=True):
        torch.testing.assert_close(ours, factor * theirs)
    assert found.tokenizers.digest() == original.tokenizers.digest()
    assert len(VerifiedFolder.open(path).manifest["average_of_steps"]) == last


@pytest.mark.parametrize(("last", "factor"), [(1, 60), (2, 40), (3, 30)])
def test_the_mean_is_of_moving_averages_if_a_run_keeps_them(run, untrained, tmp_path, last, factor, capsys):
    original = VerifiedFolder.open(untrained)
    for checkpoint in RunFolder(run).checkpoints():
        files = {name: checkpoint.read_bytes(name) for name in checkpoint.names if name.endswith(".json")}
        weights = checkpoint.read_tensors("model.safetensors")
        average = {name: 10 * tensor for name, tensor in weights.items()} | {"updates": torch.tensor(3)}
        RunFolder(run).save(
            checkpoint.step,
            {
                **model_files_of(original),
                **files,
                "model.safetensors": weights,
                "average.safetensors": average,
            },
        )
    path = average_of(run, last=last, out=tmp_path / "mean")
    found, before = load_model(path), load_model(untrained)
    for ours, theirs in zip(found.model.parameters(), before.model.parameters(), strict=True):
        torch.testing.assert_close(ours, factor * theirs)
    steps = ", ".join(map(str, (10, 20, 30)[-last:]))
    assert f"the mean of the moving averages at steps {steps}" in capsys.readouterr().err
    assert VerifiedFolder.open(path).manifest["moving_average"] is True


def test_the_card_of_a_mean_says_of_what_and_has_no_scores_of_other_weights(run, tmp_path):
    path = average_of(run, last=2, out=tmp_path / "mean")
    card = (path / "README.md").read_text()
    assert card.startswith("# run\n")  # the recipe of this model has no data
    assert "the mean of the weights after 20, 30 updates of a run" in card
    assert "##" not in card


def test_checkpoints_with_and_without_a_moving_average_are_not_mixed(run, untrained, tmp_path):
    newest = RunFolder(run).checkpoints()[0]
    weights = newest.read_tensors("model.safetensors")
    average = {**weights, "updates": torch.tensor(3)}
    files = {**model_files_of(VerifiedFolder.open(untrained)), "state.json": b"{}"}
    RunFolder(run).save(40, {**files, "model.safetensors": weights, "average.safetensors": average})
    with pytest.raises(FolderError, match="only 1 of the last 2 checkpoints have a moving average") as caught:
        average_of(run, last=2, out=tmp_path / "mean")
    assert caught.value.hint.startswith("--last 1:")
    assert average_of(run, last=1, out=tmp_path / "mean") == tmp_path / "mean"


def test_step_0_is_no_part_of_the_mean(run, untrained, tmp_path):
    folder = VerifiedFolder.open(untrained)
    weights = folder.read_tensors("model.safetensors")
    begun = tmp_path / "begun"
    for step, path in ((0, run), (0, begun)):
        content = {**model_files_of(folder), "model.safetensors": weights, "state.json": b"{}"}
        RunFolder(path).save(step, content)
    with pytest.raises(FolderError, match="has 3 checkpoints, not 4"):
        average_of(run, last=4, out=tmp_path / "mean")
    average_of(run, last=3, out=tmp_path / "mean")
    assert VerifiedFolder.open(tmp_path / "mean").manifest["average_of_steps"] == [10, 20, 30]
    with pytest.raises(FolderError, match="begun: the run is at step 0") as caught:
        average_of(begun, last=1, out=tmp_path / "none")
    assert caught.value.hint == f"resume it: regard train {begun}"


def test_more_checkpoints_than_a_run_has_and_a_folder_without_any_are_refused(run, tmp_path):
    with pytest.raises(FolderError, match="has 3 checkpoints, not 4") as caught:
        average_of(run, last=4, out=tmp_path / "mean")
    assert caught.value.hint.startswith("--last 3")
    (tmp_path / "a.txt").touch()
    (tmp_path / "empty").mkdir()
    for name, problem in (
        ("absent", "does not exist"),
        ("a.txt", "is a file"),
        ("empty", "has no checkpoint"),
    ):
        with pytest.raises(FolderError, match=f"{name} {problem}"):
            average_of(tmp_path / name, last=1, out=tmp_path / "mean")
    with pytest.raises(FolderError) as caught:
        average_of(tmp_path, last=1, out=tmp_path / "mean")
    assert caught.value.hint == "it has runs: run; give one of them"
    assert not (tmp_path / "mean").exists()


def test_one_checkpoint_is_in_the_singular(run, tmp_path):
    for step in (10, 20):
        shutil.rmtree(run / "checkpoints" / f"step-000000{step}")
    with pytest.raises(FolderError, match="has 1 checkpoint, not 2"):
        average_of(run, last=2, out=tmp_path / "mean")


@pytest.mark.parametrize(
    "out", ["run/checkpoints/step-00000030", "run/checkpoints/a", "run/best", "run", "model"]
)
def test_neither_a_run_nor_a_model_is_written_over(run, tmp_path, out):
    average_of(run, last=1, out=tmp_path / "model")
    before = {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()}
    with pytest.raises(FolderError, match=r"exists|is a part of the run"):
        average_of(run, last=2, out=tmp_path / out)
    assert {file: file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()} == before
