"""The scores of the best model at the end of a run."""

import pytest
import torch

from regard.errors import FolderError
from regard.verbs.training_run.final_scores import best_validation
from regard.weights.checkpoint import RunFolder


def run_with(path, *records, **best):
    run = RunFolder(path)
    run.write_best({"model.safetensors": {"weight": torch.ones(1)}}, **best)
    for record in records:
        run.append_metrics(record)
    return run


@pytest.mark.parametrize("is_average", [False, True])
def test_they_are_those_of_the_weights_that_were_kept(tmp_path, is_average):
    """The mean of the last checkpoints is recorded at the last step whether it was better or not."""
    records = [
        {"kind": "validation", "step": 4, "loss": 3.0},
        {"kind": "validation", "step": 8, "loss": 1.0},
        {"kind": "average", "step": 8, "of": [4, 8], "loss": 2.0},
    ]
    run = run_with(tmp_path / "run", *records, step=8, is_average=is_average)
    assert best_validation(run) == {"loss": 2.0 if is_average else 1.0}


def test_a_missing_record_is_an_error_of_one_line(tmp_path):
    run = run_with(tmp_path / "run", {"kind": "validation", "step": 4, "loss": 3.0}, step=8, is_average=False)
    with pytest.raises(FolderError, match=r"metrics.jsonl has no validation record of step 8"):
        best_validation(run)
