"""An average of checkpoints is a model folder like any other."""

import pytest
import torch

from regard.errors import FolderError
from regard.verbs.average import average
from regard.weights.checkpoint import Folder, RunFolder
from regard.weights.model_folder import load_model, model_files_of


@pytest.fixture
def run(untrained, tmp_path):
    """A run folder with three checkpoints: the weights of a model, times 1, 2 and 6."""
    folder = Folder.open(untrained)
    weights = folder.read_tensors("model.safetensors")
    run = RunFolder(tmp_path / "run")
    for step, factor in ((10, 1), (20, 2), (30, 6)):
        scaled = {name: factor * tensor for name, tensor in weights.items()}
        run.save(step, {**model_files_of(folder), "model.safetensors": scaled, "state.json": b"{}"})
    return tmp_path / "run"


@pytest.mark.parametrize(("last", "factor"), [(1, 6), (2, 4), (3, 3)])
def test_the_mean_of_the_last_checkpoints_loads_as_a_model(run, untrained, tmp_path, last, factor):
    path = average(run, last=last, out=tmp_path / "mean")
    found, original = load_model(path), load_model(untrained)
    for ours, theirs in zip(found.model.parameters(), original.model.parameters(), strict=True):
        torch.testing.assert_close(ours, factor * theirs)
    assert found.tokenizers.digest() == original.tokenizers.digest()
    assert len(Folder.open(path).manifest["average_of_steps"]) == last


def test_more_than_there_are_and_a_folder_without_any_are_refused(run, tmp_path):
    with pytest.raises(FolderError, match="has 3 checkpoints, not 4") as caught:
        average(run, last=4, out=tmp_path / "mean")
    assert caught.value.hint.startswith("--last 3")
    for nothing in (tmp_path / "absent", tmp_path):
        with pytest.raises(FolderError, match="has no checkpoint"):
            average(nothing, last=1, out=tmp_path / "mean")
    assert not (tmp_path / "mean").exists()
