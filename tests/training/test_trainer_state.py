"""The state of a run: its times, the seeds of its processes, and the checkpoints that it keeps."""

import dataclasses
import itertools
import math
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from regard.data import LoaderSettings, TensorExamples
from regard.data.loader import Loader
from regard.data.noise import derive_seed
from regard.distributed.group import Group
from regard.distributed.replicated import ReplicatedModel
from regard.errors import Interrupted
from regard.training.collapse import DISTINCT, CollapseSettings
from regard.training.gradients import Gradients
from regard.training.objective import LabelCrossEntropy, Loss
from regard.training.prefetch import BatchReader
from regard.training.schedule import ScheduleSettings
from regard.training.settings import TrainingSettings
from regard.training.trainer import Trainer
from regard.weights.checkpoint import RunFolder

ROWS = 40
SETTINGS = TrainingSettings(
    max_steps=12,
    save_every=2,
    validate_every=3,
    report_every=4,
    precision="float32",
    schedule=ScheduleSettings(kind="constant", warmup_steps=1, learning_rate=0.01),
    collapse=CollapseSettings(after=0),
)


@pytest.fixture
def trainer(tmp_path):
    """Makes trainers of a linear layer with dropout, whose validation returns `scores(step, retries)`."""

    def made(
        settings=SETTINGS,
        *,
        scores=lambda step, retries: {"loss": 1.0},
        objective=None,
        folder="run",
        group=None,
        **options,
    ):
        torch.manual_seed(0)  # not the seed of the settings
        inputs = torch.randn(ROWS, 4)
        model = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 3))
        made = Trainer(
            model,
            objective or LabelCrossEntropy(),
            Loader(
                TensorExamples(inputs, inputs[:, :3].argmax(dim=1)), LoaderSettings(batch_examples=5), seed=1
            ),
            settings,
            RunFolder(tmp_path / folder),
            {},
            validate=lambda model: scores(made.state.step, made.state.watch.retries),
            report=lambda record: None,
            distributed=None if group is None else ReplicatedModel(model, group),
            **options,
        )
        return made

    return made


class Clock:
    """A clock that `passes` moves on."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("time.perf_counter", lambda: self.now)

    def passes(self, seconds, result=None):
        self.now += seconds
        return result


# Times


def timed(trainer, clock, settings=SETTINGS, **options):
    """A trainer whose updates take 1 s and whose validations take 1000 s."""
    current = trainer(
        settings, scores=lambda step, retries: clock.passes(1000.0, {"loss": 1.0 / step}), **options
    )
    current.optimizer.register_step_pre_hook(lambda *_: clock.passes(1.0))
    return current


def test_tokens_per_second_are_those_of_training_alone(trainer, monkeypatch):
    clock = Clock(monkeypatch)
    for steps, objective in ((6, SometimesNaN()), (12, SometimesNaN(2))):  # step 8 goes back to 6, once
        settings = dataclasses.replace(SETTINGS, max_steps=steps, nonfinite_skips=0)
        current = timed(trainer, clock, settings, objective=objective)
        clock.passes(50.0)  # before training
        current.train()
    reports = [record for record in current.run.metrics() if record["kind"] == "train"]
    assert [record["step"] for record in reports] == [4, 8, 12]
    assert [record["tokens_per_second"] for record in reports] == [5.0, 5.0, 5.0], "5 labels an update"


def test_each_update_is_shown_with_its_own_time(trainer, monkeypatch):
    shown, steps = [], []
    current = timed(trainer, Clock(monkeypatch))
    current.update = lambda update: (shown.append(update), steps.append(current.state.step))
    current.train()
    assert steps == [update.step for update in shown], "at once, where nothing waits for a device"
    assert [update.step for update in shown] == [*range(1, 13)]
    assert {(update.seconds, update.targets, update.learning_rate) for update in shown} == {(1.0, 5, 0.01)}
    assert [update.is_reported for update in shown] == [step % 4 == 0 for step in range(1, 13)]
    losses = [record["loss"] for record in current.run.metrics() if record["kind"] == "train"]
    assert losses == pytest.approx(
        [sum(update.loss for update in shown[first : first + 4]) / 4 for first in (0, 4, 8)]
    )
    assert [update.left.seconds for update in shown[:3]] == [11.0, 10.0, 9.0], "no validation was timed yet"
    assert [update.left.seconds for update in shown[3:]] == [
        12 - step + 1000.0 * validations
        for step, validations in zip(range(4, 13), (3, 3, 2, 2, 2, 1, 1, 1, 0), strict=True)
    ]


def test_the_seconds_of_a_checkpoint_are_those_of_its_updates_and_its_validations(trainer, monkeypatch):
    """A resumed run tells by them how long the rest will take."""
    clock = Clock(monkeypatch)
    settings = dataclasses.replace(SETTINGS, save_every=3, keep=9)
    for part in ((3, 6), (12,)):
        current = timed(trainer, clock, dataclasses.replace(settings, max_steps=part[-1]))
        clock.passes(50.0)  # before training
        current.train()
    for point in current.run.checkpoints():
        state = point.read_json("state.json")
        assert state["validations"] == {"count": point.step // 3, "seconds": point.step // 3 * 1000.0}
        assert state["seconds"] - state["validations"]["seconds"] == point.step


def test_validations_of_a_failed_try_are_counted_too(trainer, monkeypatch):
    """They took their time, by which the rest of the run is estimated."""
    clock, validated = Clock(monkeypatch), []

    def scores(step, retries):
        validated.append(step)
        return clock.passes(1000.0, {"loss": 1.0, DISTINCT: 80.0 if retries else 1.0})

    current = trainer(dataclasses.replace(SETTINGS, validate_every=2), scores=scores)
    current.optimizer.register_step_pre_hook(lambda *_: clock.passes(1.0))
    state = current.train()
    assert validated == [2, 4, 6, 2, 4, 6, 8, 10, 12]
    assert state.validations.count == len(validated)
    assert state.validations.seconds == 1000.0 * len(validated)
    assert state.seconds == 1000.0 * len(validated) + 12 + 6


# Seeds


def test_processes_and_tries_after_a_rollback_have_masks_of_their_own(trainer):
    current, seeds = trainer(), []
    for rank in range(4):
        current.group = Group(rank=rank, size=4)
        for current.state.rollbacks in (0, 1):
            seeds.append(current._seed())
    assert len(set(seeds)) == 8
    assert seeds[:2] == [SETTINGS.seed, SETTINGS.seed + 1], "one process has the recipe's seed"


class SometimesNaN:
    """An objective that is NaN at some calls and records the seeds of the masks, and the lines of batches."""

    def __init__(self, *bad):
        self.bad, self.seeds, self.lines, self.base = bad, [], [], LabelCrossEntropy()

    def __call__(self, model, batch):
        assert model.training, "dropout is on"
        loss = self.base(model, batch)
        self.seeds.append(torch.initial_seed())
        self.lines.append(batch.lines.tolist())
        factor = math.nan if len(self.seeds) in self.bad else 1.0
        return Loss(total=loss.total * factor, nll=loss.nll * factor, num_targets=loss.num_targets)


def test_after_a_rollback_the_masks_are_others(trainer, monkeypatch):
    """The same masks would give the same loss that is not finite."""
    objective = SometimesNaN(5, 6)
    settings = dataclasses.replace(SETTINGS, nonfinite_skips=1)
    current, closed = trainer(settings, objective=objective), []
    monkeypatch.setattr(BatchReader, "close", lambda self: closed.append(current.state.step))
    current.model.eval()
    assert current.train().rollbacks == 1
    assert closed == [4, 12], "what was read ahead is dropped"
    assert objective.seeds == [settings.seed] * 6 + [settings.seed + 1] * (len(objective.seeds) - 6)
    assert len(objective.seeds) == 6 + 12 - 4, "from the checkpoint of step 4"
    assert objective.lines[6:8] == objective.lines[4:6], "with its next batches"


def test_updates_that_were_launched_before_a_rollback_are_not_counted(trainer, monkeypatch):
    """As on a GPU, where the next one is launched before it is known that one was not finite."""
    monkeypatch.setattr("regard.training.trainer.may_be_read_later", lambda *_: True)
    settings = dataclasses.replace(SETTINGS, nonfinite_skips=0, save_every=12, validate_every=12)
    shown, current = [], trainer(settings, objective=SometimesNaN(5))
    current.update = lambda update: shown.append((update.step, current.state.step - update.step))
    assert current.train().rollbacks == 1
    assert [step for step, _ in shown] == [1, 2, 3, 4, *range(1, 13)]
    assert max(ahead for _, ahead in shown) == 1, "one more is launched before the numbers of one are read"


def test_another_number_of_processes_continues_with_new_masks(trainer):
    current = trainer()
    current.train()
    own = current.state.random
    for step in (12, 13):
        current.state.step, current.state.random = step, own * 2
        current._restore_random()
        assert torch.initial_seed() == derive_seed(SETTINGS.seed, step)
    current.state.random = own
    current._restore_random()
    assert torch.initial_seed() == SETTINGS.seed


# The checkpoints


def kept(current):
    return [point.step for point in current.run.checkpoints()]


def learns_until(last):
    """A loss that falls until step `last`; later all outputs are equal, after a retry too."""
    return lambda step, retries: {
        "loss": 3.0 - min(step, last) / 10,
        DISTINCT: 80.0 if step <= last else 1.0,
    }


@pytest.mark.parametrize(
    ("collapse", "stop", "steps"),
    [
        (CollapseSettings(after=0), 15, [15, 14, 12, 8]),  # a run of 24 is judged from step 6 on
        (CollapseSettings(after=0, retries=0), 15, [15, 14, 12]),  # there is no way back
        (CollapseSettings(after=25), 15, [15, 14, 12, 8]),  # it is judged only if it diverges
        (CollapseSettings(after=24), 15, [15, 14, 12, 8]),  # it is judged at its end
        (CollapseSettings(after=0), 24, [24, 22]),  # it is finished
    ],
)
def test_the_checkpoint_of_the_last_good_validation_is_kept_while_it_may_be_needed(
    trainer, collapse, stop, steps
):
    settings = dataclasses.replace(SETTINGS, max_steps=24, validate_every=4, collapse=collapse)
    current = trainer(settings, scores=learns_until(8 if stop < 24 else 24))
    current.stop = lambda: 15 if current.state.step == stop < 24 else None
    with pytest.raises(Interrupted) if stop < 24 else nullcontext():
        current.train()
    assert kept(current) == steps


def test_updates_that_are_skipped_are_a_sign_of_divergence(trainer):
    calls = itertools.count()

    def mostly_nan(model, batch):
        loss, factor = LabelCrossEntropy()(model, batch), math.nan if next(calls) % 6 else 1.0
        return Loss(total=factor * loss.total, nll=factor * loss.nll, num_targets=loss.num_targets)

    settings = dataclasses.replace(
        SETTINGS, validate_every=6, nonfinite_skips=99, collapse=CollapseSettings(retries=0, after=0)
    )
    [found] = trainer(settings, objective=mostly_nan).train().watch.found
    assert "5 of the last 6 updates were skipped" in found["why"]


def test_the_first_check_is_at_its_step(trainer):
    """Signs at steps 6 and 9, and the check begins at 6."""
    for after, at in ((6, 9), (7, 12)):
        settings = dataclasses.replace(SETTINGS, collapse=CollapseSettings(after=after, retries=0))
        current = trainer(settings, scores=learns_until(0), folder=str(after))
        current.train()
        assert [record["at"] for record in current.state.watch.found] == [at]


def test_a_best_model_of_before_the_retry_stays_the_best(trainer):
    def scores(step, retries):
        if step <= 6 and not retries:
            return {"loss": 3.0 - step / 10, DISTINCT: 80.0}
        return {"loss": 5.0, DISTINCT: 80.0 if retries else 1.0}

    state = trainer(dataclasses.replace(SETTINGS, save_every=3), scores=scores).train()
    assert (state.watch.retries, state.best_step, state.validations_since_best) == (1, 6, 2)


def test_a_best_model_of_the_failed_part_is_the_best_no_longer(trainer):
    """Its loss of 1.0 does not count."""

    def scores(step, retries):
        if step <= 6 or retries:
            return {"loss": 3.0 - step / 100, DISTINCT: 80.0}
        return {"loss": 1.0, DISTINCT: 1.0}

    state = trainer(dataclasses.replace(SETTINGS, save_every=3), scores=scores).train()
    assert (state.watch.retries, state.best_step, state.best_value) == (1, 12, 2.88)


# Gradients


class TwoEqual(ReplicatedModel):
    """One of two processes that have the same batches."""

    def sum_(self, gradients, sums):
        for each in (*gradients, sums):
            each *= 2


def test_gradients_are_the_mean_over_the_targets_of_all_processes(trainer):
    current = trainer()
    batches, found = [next(iter(current.loader)) for _ in range(2)], []
    for distributed in (ReplicatedModel(current.model), TwoEqual(current.model)):
        current.model.eval().zero_grad()
        gradients = Gradients(distributed, LabelCrossEntropy(), current.device, "float32")
        sums = gradients(batches, current.optimizer.zero_grad)
        found.append((sums, [parameter.grad.clone() for parameter in current.model.parameters()]))
    ((nll, targets, parts), alone), (together, of_both) = found
    assert together == (2 * nll, 2 * targets, 2 * parts)
    assert (targets, parts) == (10, 2)
    for one, both in zip(alone, of_both, strict=True):
        torch.testing.assert_close(one, both)


def test_a_model_is_validated_without_dropout_and_trained_with_it(trainer, monkeypatch):
    current, seen, forgotten = trainer(), [], []
    monkeypatch.setattr("regard.training.trainer.forget_step", forgotten.append)
    current.validate = lambda model: seen.append((model.training, torch.is_grad_enabled())) or {"loss": 1.0}
    current.train()
    assert len(seen) >= 4
    assert set(seen) == {(False, False)}
    assert current.model.training
    assert forgotten == [current.model] * len(seen), "what decodes with weights that will change"


# Going back


def test_a_checkpoint_that_is_restored_is_the_state_of_the_run_and_what_was_better_later_is_forgotten(
    trainer,
):
    current = trainer()
    current.train()
    first = current.run.checkpoints()[-1]
    best = current.run.best().manifest["step"]
    current.best.keep(99, current.model)
    current.restore(first)
    current.best.write()
    assert current.state.step == first.step < 12
    assert current.run.best().manifest["step"] == best
    before = (first.path / "state.json").read_bytes()
    current._save()  # it is that of this step already
    assert (first.path / "state.json").read_bytes() == before


def test_a_collapse_is_in_the_checkpoint_to_which_the_run_goes_back(trainer):
    """So that a run that is killed then continues with half the rate, too."""
    current = trainer()
    current.train()
    first = current.run.checkpoints()[-1]
    found = {"kind": "collapse", "step": 12, "to": first.step}
    current._go_back(first, found)
    assert [point.step for point in current.run.checkpoints()] == [first.step]
    assert current.run.latest().read_json("state.json")["watch"]["found"] == [found]
    assert current.state.watch.good_step == first.step
    assert found in current.run.metrics()


# Precision


@pytest.mark.parametrize(
    ("device", "has_bfloat16", "precision", "narrow"),
    [
        ("cpu", True, "auto", False),
        ("cpu", False, "bfloat16", True),
        ("cuda", True, "auto", True),
        ("cuda", False, "auto", False),
        ("cuda", True, "float32", False),
    ],
)
def test_auto_is_bfloat16_on_a_gpu_that_has_it_without_emulation(
    trainer, monkeypatch, device, has_bfloat16, precision, narrow
):
    monkeypatch.setattr(
        torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation or has_bfloat16
    )
    monkeypatch.setattr(torch, "autocast", lambda kind, dtype: (kind, dtype))
    current = trainer()
    gradients = Gradients(current.distributed, LabelCrossEntropy(), torch.device(device), precision)
    found = gradients._autocast()
    assert (found == (device, torch.bfloat16)) is narrow
