"""What a run has lost: its best model is chosen again, and the record of it is written again."""

import pytest

from regard.errors import FolderError
from regard.training.lost_files import best_is_lost, choose_best_again, lost_record
from regard.training.settings import TrainingSettings
from regard.training.state import TrainingState
from regard.weights.checkpoint import RunFolder

BLEU = TrainingSettings(best_metric="bleu")


@pytest.fixture
def run(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.write_text("recipe.toml", "")
    return run


def state(**changes):
    return TrainingState(**{"step": 1200, "best_step": 800, "best_value": 20.0, "best_loss": 2.5, **changes})


def test_a_best_model_that_is_missing_is_lost_with_a_warning(run, capsys):
    assert best_is_lost(run, state())
    warning = capsys.readouterr().err
    assert "best is missing: the best model is chosen again from step 1,200 on" in " ".join(warning.split())


def test_where_there_was_none_or_it_is_there_nothing_is_lost(run, capsys, monkeypatch):
    assert not best_is_lost(run, state(best_step=0))
    monkeypatch.setattr(RunFolder, "best", lambda self: "a folder")
    assert not best_is_lost(run, state())
    assert capsys.readouterr().err == ""


def test_one_that_is_damaged_is_lost_but_one_that_may_not_be_read_is_an_error(run, capsys, monkeypatch):
    def fail(cause):
        def best(self):
            raise FolderError("best is damaged", "a hint") from cause

        monkeypatch.setattr(RunFolder, "best", best)

    fail(ValueError())
    assert best_is_lost(run, state())
    assert "best is damaged: the best model is chosen again" in " ".join(capsys.readouterr().err.split())
    fail(PermissionError())
    with pytest.raises(FolderError, match="best is damaged"):
        best_is_lost(run, state())


def test_the_next_validation_is_the_best_then_also_at_this_step():
    found = state(validated_step=1200, validations_since_best=2)
    choose_best_again(found)
    assert found == TrainingState(step=1200)


def test_the_record_of_the_best_validation_has_the_scores_of_the_state(run, capsys):
    run.append_metrics({"kind": "validation", "step": 400, "bleu": 10.0})
    run.append_metrics({"kind": "train", "step": 800, "loss": 3.0})
    expected = {"kind": "validation", "step": 800, "loss": 2.5, "bleu": 20.0}
    assert lost_record(run, BLEU, state()) == expected
    assert "has lost its record of step 800" in " ".join(capsys.readouterr().err.split())
    del expected["loss"]
    assert lost_record(run, BLEU, state(best_loss=None)) == expected


def test_a_record_that_is_there_or_of_no_validation_is_not_lost(run, capsys):
    assert lost_record(run, BLEU, state(best_step=0)) is None
    assert lost_record(run, BLEU, state(best_value=None)) is None
    run.append_metrics({"kind": "validation", "step": 800, "bleu": 20.0})
    assert lost_record(run, BLEU, state()) is None
    assert capsys.readouterr().err == ""
