"""A run that has lost its best model or its records resumes, says so, and ends with both."""

import shutil

import pytest

from regard.errors import FolderError
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder


def key(record):
    return record["kind"], record.get("step")


def lose(run):
    shutil.rmtree(run / "best")


def damage(run):
    with (run / "best/model.safetensors").open("r+b") as file:
        file.truncate(99)


@pytest.mark.parametrize("harm", [lose, damage])
@pytest.mark.parametrize("steps", [8, 12])
def test_a_lost_best_model_is_that_of_the_next_validation(run, harm, steps, capsys):
    harm(run)
    result = train(run, overrides=[f"training.max_steps={steps}"])
    assert result.steps == steps
    error = capsys.readouterr().err
    assert ("is missing" in error) is (harm is lose)
    assert "the best model is chosen again from step 8 on" in error
    best = RunFolder(run).best()
    assert best is not None
    assert best.manifest["step"] in (8, 12)
    assert result.metrics
    train(run)
    assert "chosen again" not in capsys.readouterr().err


def test_a_run_whose_best_model_is_there_says_nothing(run, capsys):
    before = (run / "metrics.jsonl").read_bytes()
    train(run, quiet=True)
    assert capsys.readouterr().err == ""
    assert (run / "metrics.jsonl").read_bytes().startswith(before)


def test_a_run_without_its_checkpoints_is_named_so(run):
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(FolderError, match="is a run folder without its checkpoints") as caught:
        train(run)
    assert f"--init {run} --out DIR" in caught.value.hint


@pytest.mark.parametrize("left", [0, 20])
def test_a_lost_record_of_the_best_validation_is_written_again(run, left, capsys):
    step = RunFolder(run).best(()).manifest["step"]
    file, validation = run / "metrics.jsonl", f'{{"kind": "validation", "step": {step},'
    content = file.read_text()
    file.write_text(content[: content.index(validation) + left])
    assert train(run).metrics
    assert f"metrics.jsonl has lost its record of step {step}" in capsys.readouterr().err
    [found] = [each for each in RunFolder(run).metrics() if key(each) == ("validation", step)]
    assert found["loss"] > 0
