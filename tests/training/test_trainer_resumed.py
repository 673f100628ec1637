"""A run that is resumed at its end, made shorter, or goes back does nothing twice and loses nothing."""

import dataclasses
import shutil
from contextlib import nullcontext

import pytest

from regard.errors import UserError
from regard.training.collapse import DISTINCT
from regard.weights.checkpoint import RunFolder
from tests.training.test_trainer_state import SETTINGS, SometimesNaN, trainer

__all__ = ["trainer"]


def test_without_validation_the_last_weights_are_the_best_also_of_a_run_that_was_made_shorter(trainer):
    """They are kept once: of a run that is finished nothing is validated again."""
    shorter = dataclasses.replace(SETTINGS, max_steps=6)
    for _ in range(2):
        current = trainer(dataclasses.replace(SETTINGS, keep=9))
        current.validate = None
        assert current.train().validations.count == 4
    current.run.remove_after(6)
    for _ in range(2):
        current = trainer(shorter)
        current.validate = None
        state = current.train()
        assert (state.step, state.best_step, state.validations.count) == (6, 6, 3)
        assert {record["step"] for record in current.run.metrics()} == {4}, "later ones are gone"


def test_the_mean_of_the_last_checkpoints_is_scored_again_only_if_the_best_model_is_lost(trainer):
    settings, scored = dataclasses.replace(SETTINGS, average_last=2), []

    def validate(model):
        scored.append(1)
        return {"loss": 1.0}

    for is_lost, count in ((False, 5), (False, 5), (True, 7)):
        current = trainer(settings)
        current.validate = validate
        if is_lost:
            shutil.rmtree(current.run.path / "best")
        current.train()
        assert len(scored) == count


def test_a_record_of_the_best_validation_that_is_lost_is_written_again(trainer):
    for _ in range(2):
        current = trainer()
        (current.run.path / "metrics.jsonl").unlink(missing_ok=True)
        current.train()
    assert current.run.metrics() == [{"kind": "validation", "step": 3, "loss": 1.0}]


def test_a_gradient_of_0_is_an_error_in_the_first_update_alone(trainer):
    class Flat(SometimesNaN):
        def __call__(self, model, batch):
            loss = super().__call__(model, batch)
            return dataclasses.replace(loss, total=loss.total * (len(self.seeds) != self.at))

    for at, expected in ((1, pytest.raises(UserError, match="gradient")), (2, nullcontext())):
        objective = Flat()
        objective.at = at
        current = trainer(objective=objective, folder=str(at))
        with expected:
            current.train()
        assert current.state.step == (1 if at == 1 else 12)


def test_a_checkpoint_is_written_once_and_again_if_the_run_goes_back_to_it(trainer, monkeypatch):
    saved, usual = [], RunFolder.save

    def save(self, step, *given, **more):
        saved.append(step)
        return usual(self, step, *given, **more)

    monkeypatch.setattr(RunFolder, "save", save)

    def scores(step, retries):
        return {"loss": 3.0 - step / 10, DISTINCT: 80.0 if retries or step <= 6 else 1.0}

    assert trainer(scores=scores).train().watch.retries == 1
    assert saved == [0, 2, 4, 6, 8, 10, 6, 8, 10, 12]
