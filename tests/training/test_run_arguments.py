"""A run folder of `fit` resumes with the arguments that it began with, and refuses others by name."""

import dataclasses
import functools
import hashlib
import json
import re
import struct
import warnings
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.data import LoaderSettings, TensorExamples
from regard.errors import FolderError
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.training import (
    LabelCrossEntropy,
    Loss,
    OptimizerSettings,
    ScheduleSettings,
    TrainingSettings,
    fit,
    register_loss,
    register_optimizer,
    register_schedule,
)
from regard.training.losses import LOSSES
from regard.training.registered_optimizers import OPTIMIZERS
from regard.training.run_arguments import (
    ARGUMENTS,
    _digest,
    _spread,
    forget_what_changed,
    refuse_other_arguments,
    run_arguments,
)
from regard.training.schedule import SCHEDULES
from regard.weights import RunFolder

RATE = ScheduleSettings(kind="constant", learning_rate=0.001, warmup_steps=1)
SETTINGS = TrainingSettings(max_steps=4, validate_every=2, save_every=2, schedule=RATE)
INPUTS = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
LABELS = INPUTS[:, :3].argmax(dim=1)


def weighted(model, batch, weight=1.0):
    nll = F.cross_entropy(model(*batch.inputs), batch.labels, reduction="sum")
    return Loss(total=weight * nll, nll=nll, num_targets=len(batch.labels))


def enclosed(weight):
    return lambda model, batch: weighted(model, batch, weight)


def network(dropout=0.1, width=5):
    return nn.Sequential(nn.Linear(4, width), nn.Dropout(dropout), nn.Linear(width, 3))


def train(out, **changes):
    given = {
        "model": network(),
        "examples": TensorExamples(INPUTS, LABELS),
        "objective": LabelCrossEntropy(),
        "settings": SETTINGS,
        "batches": LoaderSettings(batch_examples=20),
        **changes,
    }
    model, examples = given.pop("model"), given.pop("examples")
    return fit(model, examples, out, **given)


def changed_labels():
    labels = LABELS.clone()
    labels[7] = (labels[7] + 1) % 3
    return TensorExamples(INPUTS, labels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {
                "settings": dataclasses.replace(
                    SETTINGS, schedule=dataclasses.replace(RATE, learning_rate=0.1)
                )
            },
            "learning_rate was 0.001, and is 0.1",
        ),
        ({"settings": dataclasses.replace(SETTINGS, seed=2)}, "settings.seed was 1, and is 2"),
        ({"settings": dataclasses.replace(SETTINGS, freeze=("0",))}, "settings.freeze was [], and is ['0']"),
        ({"batches": LoaderSettings(batch_tokens=7)}, "batches.batch_tokens was 4096, and is 7"),
        ({"model": network(dropout=0.5)}, "model.modules.1 was Dropout(p=0.1"),
        ({"model": network(width=6)}, "model.weights.0.weight was float32 [5, 4], and is float32 [6, 4]"),
        ({"model": network().append(nn.Identity())}, "model.modules.3 was not there, and is Identity()"),
        ({"model": nn.Linear(4, 3)}, "model.class was torch.nn.modules.container.Sequential"),
        ({"model": network().requires_grad_(False).append(nn.Linear(3, 3))}, "[5, 4], frozen"),
        ({"objective": LabelCrossEntropy(smoothing=0.1)}, "objective.smoothing was 0.0, and is 0.1"),
        ({"objective": weighted}, "weighted"),
        ({"examples": TensorExamples(INPUTS[:59], LABELS[:59])}, "examples.count was 60, and is 59"),
        ({"examples": changed_labels()}, "examples.contents differs"),
        ({"valid": TensorExamples(INPUTS, LABELS)}, "valid differs"),
        ({"validate": lambda model: {"loss": 1.0}}, "validate differs"),
    ],
)
def test_another_argument_is_refused_by_name(tmp_path, changes, message):
    train(tmp_path / "run")
    with pytest.raises(FolderError, match=re.escape(message)) as caught:
        train(tmp_path / "run", **changes)
    assert "another folder" in caught.value.hint


def test_the_refused_run_is_unchanged(tmp_path):
    train(tmp_path / "run")
    before = {path: path.read_bytes() for path in sorted((tmp_path / "run").rglob("*")) if path.is_file()}
    with pytest.raises(FolderError):
        train(tmp_path / "run", batches=LoaderSettings(batch_tokens=7))
    assert before == {path: path.read_bytes() for path in before}


def test_the_same_arguments_and_more_updates_continue(tmp_path):
    for steps in (4, 4, 8):
        state = train(tmp_path / "run", settings=dataclasses.replace(SETTINGS, max_steps=steps))
        assert state.step == steps


def test_fewer_updates_than_are_done_are_refused(tmp_path):
    train(tmp_path / "run")
    with pytest.raises(FolderError, match="beyond max_steps = 2"):
        train(tmp_path / "run", settings=dataclasses.replace(SETTINGS, max_steps=2))


def test_without_a_checkpoint_nothing_is_refused(tmp_path):
    """A run that failed before its first checkpoint has nothing that could be returned."""
    with pytest.raises(ZeroDivisionError):
        train(tmp_path / "run", objective=lambda model, batch: 1 / 0)
    assert train(tmp_path / "run").step == 4


def test_a_run_without_an_update_begins_again_with_other_arguments(tmp_path, monkeypatch):
    """Its checkpoint of step 0 is of another model."""
    monkeypatch.setattr(OPTIMIZERS, "added", {})

    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            raise ZeroDivisionError

    register_optimizer("fails")(Failing)
    failing = dataclasses.replace(SETTINGS, optimizer=OptimizerSettings(kind="fails"))
    with pytest.raises(ZeroDivisionError):
        train(tmp_path, model=network(width=6), settings=failing)
    assert RunFolder(tmp_path).latest().step == 0
    assert train(tmp_path).step == 4


def test_a_run_that_fit_did_not_begin_is_refused(tmp_path):
    train(tmp_path / "run")
    (tmp_path / "run" / ARGUMENTS).unlink()
    with pytest.raises(FolderError, match="did not begin"):
        train(tmp_path / "run")
    with RunFolder(tmp_path / "recipe").lock() as run:
        run.write_text("recipe.toml", "")
    with pytest.raises(FolderError, match="did not begin"):
        train(tmp_path / "recipe")


def described(objective):
    examples = TensorExamples(INPUTS, LABELS)
    return run_arguments(network(), objective, SETTINGS, LoaderSettings(), examples, None, None)["objective"]


def test_values_that_a_function_was_made_with_count():
    assert described(enclosed(1.0)) == described(enclosed(1.0)) != described(enclosed(2.0))
    one, two = (functools.partial(weighted, weight=weight) for weight in (1.0, 2.0))
    assert described(one) == described(functools.partial(weighted, weight=1.0)) != described(two)
    one, two = (LabelCrossEntropy(weights=(1.0, weight, 1.0)) for weight in (1.0, 2.0))
    assert described(one) != described(two)


def test_the_code_of_a_function_counts_but_not_its_comments(tmp_path):
    def load(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        names = {"__name__": "cell"}
        exec(compile(text, str(path), "exec"), names)
        return names["objective"]

    first = load("first", "def objective(model, batch):\n    return 1\n")
    commented = load("commented", "def objective(model, batch):\n    return  1  # one\n")
    other = load("other", "def objective(model, batch):\n    return 2\n")
    assert described(first) == described(commented) != described(other)


class Focal(nn.Module):
    """A loss as a module, with a setting that is not a weight."""

    def __init__(self, gamma):
        super().__init__()
        self.gamma = gamma

    def forward(self, model, batch):
        return weighted(model, batch, self.gamma)


class Weighted:
    def __init__(self, weight):
        self.weight = weight

    def loss(self, model, batch):
        return weighted(model, batch, self.weight)


@pytest.mark.parametrize("make", [Focal, lambda weight: Weighted(weight).loss], ids=["module", "method"])
def test_settings_of_an_objective_count(make):
    assert described(make(1.0)) == described(make(1.0)) != described(make(2.0))


@dataclasses.dataclass
class Again:
    """An objective that refers to itself."""

    again: object = None

    def __post_init__(self):
        self.again = self

    def __call__(self, model, batch):
        return weighted(model, batch)


def test_values_are_described_by_what_they_are():
    def of(value):
        return described(Weighted(value).loss)["of"]["weight"]

    assert of(SimpleNamespace(a=1)) == "types.SimpleNamespace"
    assert of(LabelCrossEntropy(smoothing=0.1))["smoothing"] == 0.1
    assert of(LabelCrossEntropy).endswith("objective.LabelCrossEntropy")
    assert described(weighted)["weight"] == 1.0, "a default"
    many = {str(number): number for number in range(101)}
    assert of(many) == of(dict(reversed(many.items()))) != of({**many, "0": 1})


def test_an_objective_of_regard_is_described_without_its_code():
    """So that a run is resumed by a later version."""
    assert described(LabelCrossEntropy())["source"] is None
    assert described(weighted)["source"]


def test_the_config_of_a_model_counts_also_what_no_module_shows():
    config = DecoderOnlyConfig(vocab_size=9, d_model=8, num_heads=2, d_ff=8, num_layers=1)
    model, found = build_model(config, seed=1), []
    for model.config in (config, dataclasses.replace(config, dropout=0.3)):
        examples = TensorExamples(INPUTS, LABELS)
        found.append(run_arguments(model, weighted, SETTINGS, LoaderSettings(), examples, None, None))
    assert found[0]["model"] != found[1]["model"]


def test_functions_that_refer_to_themselves_or_to_nothing_yet_are_described():
    def flat(values):
        return [each for value in values for each in flat(value)] if isinstance(values, list) else [values]

    def objective(model, batch):
        return weighted(model, batch, *flat([later]))

    assert described(objective) == described(objective)
    later = 1.0
    found = described(objective)
    assert found["later"] == later
    assert found["flat"]["flat"].endswith("<locals>.flat")
    again = Again()
    assert described(again)["again"].endswith(".Again")


def test_examples_are_compared_by_their_first_epoch():
    """A run of an earlier version has stored it."""
    epochs = []

    class Noisy(TensorExamples):
        def lengths(self, indices, epoch):
            epochs.append(epoch)
            return super().lengths(indices, epoch)

        def batch(self, indices, epoch):
            epochs.append(epoch)
            return super().batch(indices, epoch)

    run_arguments(network(), weighted, SETTINGS, LoaderSettings(), Noisy(INPUTS, LABELS), None, None)
    assert epochs == [0, 0]


def test_long_lists_and_arrays_are_digests():
    one, two = (Weighted([number] * 100_000) for number in (1, 2))
    assert described(one.loss) != described(two.loss)
    assert len(str(described(one.loss))) < 1000
    arrays = [Weighted(torch.full((3,), number).numpy()).loss for number in (1, 2)]
    assert described(arrays[0]) != described(arrays[1])


def test_what_a_run_changes_itself_is_not_compared(tmp_path):
    """An objective that counts its calls, and a list of scores."""
    scores = []

    class Counting(Weighted):
        calls = 0

        def __call__(self, model, batch):
            self.calls += 1
            return self.loss(model, batch)

    def validate(model):
        scores.append(len(scores))
        return {"loss": 1.0}

    objective = Counting(1.0)
    for steps in (4, 8):
        settings = dataclasses.replace(SETTINGS, max_steps=steps)
        assert train(tmp_path, objective=objective, validate=validate, settings=settings).step == steps
    with pytest.raises(FolderError, match=r"objective\.weight was 1\.0, and is 2\.0"):
        train(tmp_path, objective=Counting(2.0), validate=validate)


def test_a_value_that_becomes_another_kind_of_value_is_not_compared(tmp_path):
    run = RunFolder(tmp_path)
    arguments = {"model": {"a": 1}, "objective": {"a": {"b": 1}, "c": 2, "d": {"e": 3, "f": 4}, "g": None}}
    afterwards = {"model": {"a": 2}, "objective": {"a": 1, "c": {"b": 1}, "d": {"e": 3, "f": 5}, "h": 6}}
    forget_what_changed(run, arguments, arguments)
    assert not (tmp_path / ARGUMENTS).exists()
    forget_what_changed(run, arguments, afterwards)
    assert json.loads((tmp_path / ARGUMENTS).read_text()) == {
        "model": {"a": 1},
        "objective": {"d": {"e": 3}},
    }


def test_another_loss_of_the_same_name_is_refused(tmp_path):
    settings = dataclasses.replace(SETTINGS, loss="mine")
    try:
        for factor in (1.0, 2.0):
            register_loss("mine")(scaled(factor))
            if factor == 1.0:
                train(tmp_path, settings=settings)
            else:
                with pytest.raises(FolderError, match=r"factor was 1\.0, and is 2\.0"):
                    train(tmp_path, settings=settings)
    finally:
        LOSSES.added.pop("mine")


def test_another_optimiser_or_schedule_of_the_same_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(OPTIMIZERS, "added", {})
    monkeypatch.setattr(SCHEDULES, "added", {})

    def register(momentum, factor):
        register_optimizer("mine")(lambda groups: torch.optim.SGD(groups, momentum=momentum))
        register_schedule("mine")(lambda step, warmup, max_steps: factor)

    settings = dataclasses.replace(
        SETTINGS,
        optimizer=OptimizerSettings(kind="mine"),
        schedule=ScheduleSettings(kind="mine", warmup_steps=1),
    )
    register(0.5, 1.0)
    train(tmp_path, settings=settings)
    for changed, message in (
        ((0.9, 1.0), r"optimizer\.momentum was 0\.5, and is 0\.9"),
        ((0.5, 2.0), r"schedule\.factor was 1\.0, and is 2\.0"),
    ):
        register(*changed)
        with pytest.raises(FolderError, match=message):
            train(tmp_path, settings=settings)


def test_an_optimiser_class_that_was_used_already_is_the_same(tmp_path, monkeypatch):
    """PyTorch wraps its `step` when the first one is made."""
    monkeypatch.setattr(OPTIMIZERS, "added", {})

    class Own(torch.optim.SGD):
        pass

    register_optimizer("mine")(Own)
    settings = dataclasses.replace(SETTINGS, optimizer=OptimizerSettings(kind="mine"))
    train(tmp_path, settings=settings)
    assert train(tmp_path, settings=dataclasses.replace(settings, max_steps=8)).step == 8


def scaled(factor):
    return lambda logits, labels: factor * F.cross_entropy(logits, labels, reduction="none")


def test_a_learning_rate_that_is_given_is_that_which_is_not_given(tmp_path):
    """Runs of versions without the second have the number."""
    train(tmp_path)
    unset = dataclasses.replace(SETTINGS, max_steps=8, schedule=dataclasses.replace(RATE, learning_rate=None))
    assert train(tmp_path, settings=unset).step == 8


def test_a_setting_of_a_later_version_is_not_compared(tmp_path):
    train(tmp_path)
    path = tmp_path / ARGUMENTS
    stored = json.loads(path.read_text())
    del stored["settings"]["r_drop"]
    path.write_text(json.dumps(stored))
    assert train(tmp_path).step == 4


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, "; and 1 more"), (9, "; and 4 more")])
def test_five_differences_are_named_and_the_others_counted(tmp_path, monkeypatch, count, more):
    run = RunFolder(tmp_path)
    old = {"settings": {str(number): 1 for number in range(9)}}
    new = {"settings": {str(number): 1 + (number < count) for number in range(9)}}
    (tmp_path / ARGUMENTS).write_text(json.dumps(old))
    monkeypatch.setattr(RunFolder, "latest", lambda self: SimpleNamespace(step=3))
    with pytest.raises(FolderError) as caught:
        refuse_other_arguments(run, new, 3)
    assert caught.value.message.endswith(f"settings.4 was 1, and is 2{more}")
    refuse_other_arguments(run, old, 3)


def test_an_empty_text_is_shown_as_one(tmp_path, monkeypatch):
    (tmp_path / ARGUMENTS).write_text(json.dumps({"settings": {"loss": ""}}))
    monkeypatch.setattr(RunFolder, "latest", lambda self: SimpleNamespace(step=3))
    with pytest.raises(FolderError, match=r"settings\.loss was '', and is mine"):
        refuse_other_arguments(RunFolder(tmp_path), {"settings": {"loss": "mine"}}, 3)


def test_digests_stay_those_of_runs_that_have_begun():
    """Each part with its length before it, in eight bytes: fit.json of an earlier version holds them."""
    parts = (b"ab", b"c", b"")
    joined = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    assert _digest(*parts) == f"sha256 {hashlib.sha256(joined).hexdigest()}"


def test_a_hundred_values_are_compared_one_by_one_and_more_by_their_digest():
    assert described(Weighted([1] * 100).loss)["of"]["weight"] == [1] * 100
    assert described(Weighted([1] * 101).loss)["of"]["weight"].startswith("sha256 ")


def test_examples_to_compare_are_evenly_spaced_from_the_first_to_the_last():
    assert _spread(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert _spread(5, 5).tolist() == [0, 1, 2, 3, 4]
    assert _spread(101, 3).tolist() == [0, 50, 100]
    assert _spread(0, 3).tolist() == []


def noam(steps, rate=None):
    schedule = ScheduleSettings(kind="noam", learning_rate=rate, warmup_steps=5)
    return dataclasses.replace(SETTINGS, max_steps=steps, schedule=schedule)


@pytest.mark.filterwarnings("ignore:training.schedule.learning_rate = 0.001")
def test_a_run_of_noam_keeps_the_factor_of_an_earlier_version(tmp_path):
    """Where none was given it was 0.001, which the folder of such a run has; it was refused."""

    def trained(folder, settings):
        torch.manual_seed(1)
        config = DecoderOnlyConfig(vocab_size=9, d_model=8, num_heads=2, d_ff=8, num_layers=1)
        model = build_model(config, seed=1)
        ids = torch.randint(4, 9, (8, 6), generator=torch.Generator().manual_seed(1))
        examples = TensorExamples(ids[:, :-1], ids[:, 1:])
        fit(model, examples, tmp_path / folder, objective=LabelCrossEntropy(), settings=settings)
        return model.state_dict()

    one = trained("one", noam(6, 0.001))
    trained("old", noam(2, 0.001))
    with pytest.warns(UserWarning, match=r"keeps schedule\.learning_rate = 0\.001, .* for a new run it is 1"):
        two = trained("old", noam(6))
    assert all(torch.equal(one[name], two[name]) for name in one)
    with pytest.raises(FolderError, match=r"learning_rate was 0\.001, and is 1\.0"):
        trained("old", noam(6, 1.0))
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        trained("new", noam(2))
        trained("new", noam(4))
    assert not any("keeps" in str(each.message) for each in given)
