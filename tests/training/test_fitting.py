"""Training without a recipe: the same loop, resumed to the bit, for models of regard and for any module."""

import re
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jaxtyping
import pytest
import torch
from torch import nn

from regard.data import LoaderSettings, SequencePairs, TensorExamples
from regard.data.loader import Loader
from regard.errors import ConfigError, DataError, RecipeError, UserError
from regard.models import EncoderDecoder, EncoderDecoderConfig
from regard.models.build import build_model
from regard.training import (
    CrossEntropy,
    LabelCrossEntropy,
    Loss,
    ScheduleSettings,
    Trainer,
    TrainingSettings,
    fit,
    gradients,
)
from regard.training.collapse import CollapseSettings
from regard.training.fit_settings import refuse_unused_settings
from regard.training.losses import LOSSES, CustomLoss, register_loss
from regard.training.objective import refuse_other_inputs, refuse_unused_forward
from regard.training.objective_trial import fault, is_own
from regard.training.r_drop import RDrop
from regard.training.share_objective import ShareObjective
from regard.weights import RunFolder

SCHEDULE = ScheduleSettings(kind="constant", learning_rate=0.05, warmup_steps=1)


def settings(steps, **changes):
    return TrainingSettings(max_steps=steps, validate_every=5, save_every=5, schedule=SCHEDULE, **changes)


def linear(seed=1):
    torch.manual_seed(seed)
    return nn.Linear(4, 3)


@pytest.fixture
def rows():
    inputs = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
    return TensorExamples(inputs, inputs[:, :3].argmax(dim=1))


def test_any_module_learns(tmp_path, rows):
    model, records = linear(), []
    fit(
        model,
        rows,
        tmp_path / "run",
        objective=LabelCrossEntropy(),
        settings=settings(60),
        report=records.append,
    )
    losses = [each["loss"] for each in records if each["kind"] == "validation"]
    assert losses[-1] < 0.5 < losses[0]


def climbing(model, batch):
    """The loss with the wrong sign; its likelihood is reported as it is."""
    nll = loss_of(model, batch)
    return Loss(total=-nll, nll=nll.detach(), num_targets=len(batch.labels))


def test_a_loss_with_the_wrong_sign_is_warned_of(tmp_path, rows):
    """It trained to the end without a word."""
    register_loss("climbing")(
        lambda logits, labels: -nn.functional.cross_entropy(logits, labels, reduction="none")
    )
    small = LoaderSettings(batch_examples=10)
    try:
        for objective, loss in ((climbing, ""), (LabelCrossEntropy(), "climbing")):
            with pytest.warns(UserWarning, match=r"collapsed .* \(does the loss '?climbing'? fall as"):
                fit(
                    linear(),
                    rows,
                    tmp_path / (loss or "own"),
                    objective=objective,
                    settings=settings(60, loss=loss),
                    batches=small,
                )
    finally:
        LOSSES.added.pop("climbing")


@pytest.mark.parametrize("r_drop", [0.0, 1.0])
def test_a_registered_loss_that_is_divided_by_its_targets_is_refused_as_an_objective_is(
    tmp_path, rows, r_drop
):
    """It trained at a loss hundreds of times too small."""

    def divided(logits, labels):
        return nn.functional.cross_entropy(logits, labels, reduction="none") / len(labels)

    register_loss("divided")(divided)
    model = nn.Sequential(linear(), nn.Dropout(0.1))
    try:
        with pytest.raises(UserError, match="'divided' divides by the number of targets") as caught:
            fit(
                model,
                rows,
                tmp_path / "run",
                objective=LabelCrossEntropy(),
                settings=settings(5, loss="divided", r_drop=r_drop),
            )
        assert "each target" in caught.value.hint
    finally:
        LOSSES.added.pop("divided")


def test_a_run_in_two_parts_is_the_run_in_one(tmp_path, rows):
    one, two = linear(), linear()
    fit(one, rows, tmp_path / "one", objective=LabelCrossEntropy(), settings=settings(10))
    for steps in (5, 10):
        two = linear(seed=steps)  # the weights come from the checkpoint
        if steps == 5:
            two.load_state_dict(linear().state_dict())
        fit(two, rows, tmp_path / "two", objective=LabelCrossEntropy(), settings=settings(steps))
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, two.state_dict()[name]), name


def test_a_run_that_ends_in_its_warm_up_is_warned_of_as_by_a_recipe(tmp_path, rows):
    short = TrainingSettings(max_steps=4, schedule=ScheduleSettings(warmup=0.5, cooldown=1.0))
    with pytest.warns(
        UserWarning,
        match=r"and the cooldown the last 4, so .* 75 % .* ScheduleSettings\(warmup=",
    ):
        fit(linear(), rows, tmp_path / "run", objective=LabelCrossEntropy(), settings=short)
    fit(linear(), rows, tmp_path / "run", objective=LabelCrossEntropy(), settings=short)  # it has ended


def test_a_loss_that_stays_at_the_entropy_of_the_labels_is_no_collapse(tmp_path, rows):
    """As of rows that tell nothing of their labels."""
    slow = ScheduleSettings(kind="constant", learning_rate=1e-6, warmup_steps=1)
    judged = replace(settings(60, collapse=CollapseSettings(after=0)), schedule=slow)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state = fit(linear(), rows, tmp_path / "run", objective=LabelCrossEntropy(), settings=judged)
    assert state.watch.found == []


def test_a_model_of_regard_leaves_a_checkpoint_with_its_config(tmp_path):
    config = EncoderDecoderConfig(
        src_vocab_size=9, tgt_vocab_size=9, pad_id=0, d_model=8, num_heads=2, d_ff=8,
        num_encoder_layers=1, num_decoder_layers=1,
    )  # fmt: skip
    pairs = SequencePairs([[4, 5], [6]], [[5, 4], [6]])
    model = build_model(config, seed=1)
    fit(
        model,
        pairs,
        tmp_path / "run",
        objective=CrossEntropy(),
        settings=settings(5),
        batches=LoaderSettings(),
    )
    folder = RunFolder(tmp_path / "run").best()
    assert folder is not None
    assert folder.read_json("config.json")["settings"]["d_model"] == 8


def test_the_schedule_of_the_paper_needs_a_width(tmp_path, rows):
    noam = TrainingSettings(max_steps=5, schedule=ScheduleSettings(kind="noam"))
    with pytest.raises(RecipeError, match="d_model"):
        fit(linear(), rows, tmp_path / "run", objective=LabelCrossEntropy(), settings=noam)


@pytest.mark.parametrize("count", [1, 7, 60])
def test_validation_reports_the_mean_loss_of_all_targets(tmp_path, rows, count):
    records = []
    seen = TensorExamples(rows.inputs[:count], rows.labels[:count])
    model = linear()
    fit(
        model,
        rows,
        tmp_path / "run",
        objective=LabelCrossEntropy(),
        settings=settings(5),
        valid=seen,
        report=records.append,
    )
    (reported,) = (each["loss"] for each in records if each["kind"] == "validation")
    expected = nn.functional.cross_entropy(model(seen.inputs), seen.labels)
    assert reported == pytest.approx(expected.item(), rel=1e-5)


def loss_of(model, batch):
    return nn.functional.cross_entropy(model(*batch.inputs), batch.labels, reduction="sum")


def detached(model, batch):
    total = loss_of(model, batch).detach()
    return Loss(total=total, nll=total, num_targets=len(batch.labels))


def not_summed(model, batch):
    loss = Loss(total=loss_of(model, batch), nll=torch.zeros(()), num_targets=len(batch.labels))
    object.__setattr__(loss, "total", loss.total.expand(3))  # the tests check shapes, users do not
    return loss


def mean(model, batch):
    loss = nn.functional.cross_entropy(model(*batch.inputs), batch.labels)
    return Loss(total=loss, nll=loss.detach() * len(batch.labels), num_targets=len(batch.labels))


def mean_likelihood(model, batch):
    loss = loss_of(model, batch)
    return Loss(total=loss, nll=loss.detach() / len(batch.labels), num_targets=len(batch.labels))


def without_likelihood(model, batch):
    return Loss(total=loss_of(model, batch), nll=torch.zeros(()), num_targets=len(batch.labels))


def one_target(model, batch):
    loss = loss_of(model, batch)
    return Loss(total=loss, nll=loss.detach(), num_targets=1)


def negative_count(model, batch):
    loss = loss_of(model, batch)
    return Loss(total=loss, nll=loss.detach(), num_targets=-len(batch.labels))


def of_a_weight_of_its_own(model, batch):
    total = loss_of(model, batch).detach() * nn.Parameter(torch.ones(()))
    return Loss(total=total, nll=total.detach(), num_targets=len(batch.labels))


def of_decisions(model, batch):
    logits = model(*batch.inputs)
    total = loss_of(model, batch).detach() + 0 * logits.sum()
    return Loss(total=total, nll=total.detach(), num_targets=len(batch.labels))


@pytest.mark.parametrize(
    ("objective", "message"),
    [
        (without_likelihood, "without_likelihood returned a Loss whose nll is 0 where total is"),
        (one_target, "one_target counts 1 target for 2 examples and for 4, but its total is a sum"),
        (negative_count, "negative_count returned a Loss whose num_targets is -"),
        (of_decisions, "the gradient of of_decisions is 0 in the first update"),
        (of_a_weight_of_its_own, "the gradient of of_a_weight_of_its_own is 0 in the first update"),
        (mean, "objective mean returned a Loss whose total is a mean, not a sum: .* for 2 and 4 targets"),
        (mean_likelihood, "objective mean_likelihood returned a Loss whose nll is a mean"),
        (loss_of, "loss_of returned Tensor, not a Loss"),
        (detached, "the loss of detached has no gradient"),
        (not_summed, r"total is \[3\], not one number"),
    ],
)
def test_a_wrong_objective_is_refused_with_a_hint(tmp_path, rows, objective, message):
    with pytest.raises(UserError, match=message) as caught:
        fit(linear(), rows, tmp_path / "run", objective=objective, settings=settings(5))
    assert caught.value.hint


def test_a_registered_loss_without_a_gradient_is_refused_in_the_first_update(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(LOSSES, "added", {})
    register_loss("errors")(lambda logits, labels: (logits.argmax(-1) != labels) + 0 * logits.sum(-1))
    objective, wanted = LabelCrossEntropy(), settings(5, loss="errors")
    with pytest.raises(UserError, match="gradient of 'errors' is 0 in the first update"):
        fit(linear(), rows, tmp_path / "run", objective=objective, settings=wanted)


def test_an_objective_of_whole_batches_may_be_a_mean(tmp_path, rows):
    def of_batch(model, batch):
        loss = nn.functional.cross_entropy(model(*batch.inputs), batch.labels)
        return Loss(total=loss, nll=loss.detach(), num_targets=1)

    fit(linear(), rows, tmp_path / "run", objective=of_batch, settings=settings(5))


def test_a_mean_is_refused_though_the_model_has_dropout(rows):
    message, _ = fault(mean, nn.Sequential(linear(), nn.Dropout(0.5)), rows, torch.device("cpu"))
    assert "total is a mean" in message


def test_a_likelihood_that_is_0_for_a_few_examples_alone_may_be_right(rows):
    """As that of examples that the model knows."""

    def known_at_first(model, batch):
        loss = loss_of(model, batch)
        return Loss(total=loss, nll=loss.detach() * (len(batch) > 4), num_targets=len(batch))

    assert fault(known_at_first, linear(), rows, torch.device("cpu")) is None


def test_what_an_objective_records_in_a_trial_is_not_kept(rows):
    """A function cannot be copied, so what it records is."""

    class Recording:
        def __init__(self):
            self.calls = []

        def __call__(self, model, batch):
            self.calls.append(len(batch.labels))
            loss = loss_of(model, batch)
            return Loss(total=loss, nll=loss, num_targets=len(batch.labels))

    def recording(model, batch):
        recording.calls.append(len(batch.labels))
        return Recording()(model, batch)

    recording.calls = calls = []
    objective = Recording()
    for each in (objective, recording):
        assert fault(each, linear(), rows, torch.device("cpu")) is None
    assert objective.calls == []
    assert recording.calls is calls == [2, 4]


def test_inputs_are_refused_by_a_single_example_and_not_without_one(rows):
    class Nothing:
        def __len__(self):
            return 0

        def lengths(self, indices, epoch): ...

        def batch(self, indices, epoch): ...

    refuse_other_inputs(linear(), CrossEntropy(), Nothing())
    one = TensorExamples(rows.inputs[:1], rows.labels[:1])
    refuse_other_inputs(linear(), LabelCrossEntropy(), one)
    with pytest.raises(ConfigError, match="needs a model with encode"):
        refuse_other_inputs(linear(), CrossEntropy(), one)


def test_an_objective_is_tried_without_a_trace(tmp_path, rows):
    """It draws random numbers, and its model has a part that stays in evaluation mode."""

    def noisy(model, batch):
        found = loss_of(model, batch) + 0 * torch.rand(())
        return Loss(total=found, nll=found.detach(), num_targets=len(batch.labels))

    model = nn.Sequential(linear(), nn.Dropout(0.5).eval())
    before = torch.get_rng_state()
    fault(noisy, model, rows, torch.device("cpu"))
    assert torch.equal(torch.get_rng_state(), before)
    assert [each.training for each in model.modules()] == [True, True, False]


def test_an_objective_that_changes_in_validation_is_refused_there_too(tmp_path, rows):
    def changing(model, batch):
        loss = loss_of(model, batch)
        return Loss(total=loss, nll=loss.detach(), num_targets=len(batch.labels)) if model.training else loss

    with pytest.raises(UserError, match="changing returned Tensor, not a Loss"):
        fit(linear(), rows, tmp_path / "run", objective=changing, settings=settings(5))


def test_an_index_error_of_an_objective_is_its_own(tmp_path, rows):
    def failing(model, batch):
        raise IndexError("list index out of range")

    with pytest.raises(IndexError, match="list index out of range"):
        fit(linear(), rows, tmp_path / "run", objective=failing, settings=settings(5))


@pytest.mark.parametrize("off", [torch.no_grad, torch.inference_mode])
def test_training_without_gradients_is_refused(tmp_path, rows, off):
    with off(), pytest.raises(UserError, match="gradients are turned off") as caught:
        fit(linear(), rows, tmp_path / "run", objective=LabelCrossEntropy(), settings=settings(5))
    assert "no_grad" in caught.value.hint


def test_a_model_without_trained_weights_is_refused(tmp_path, rows):
    with pytest.raises(ConfigError, match="Linear has no weight"):
        fit(
            linear().requires_grad_(False),
            rows,
            tmp_path / "run",
            objective=LabelCrossEntropy(),
            settings=settings(5),
        )


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"mine": 1.0}, "returned 'mine', but not 'loss'"),
        ({}, "returned nothing, but not 'loss'"),
        (0.5, "returned float, not a dictionary"),
        ({"loss": "low"}, "'loss' = 'low', which is not a number"),
        ({"loss": 1.0, "note": "23.1"}, "'note' = '23.1', which is not a number"),
    ],
)
def test_a_wrong_validation_is_refused_with_a_hint(tmp_path, rows, found, message):
    with pytest.raises(UserError, match=message) as caught:
        fit(
            linear(),
            rows,
            tmp_path / "run",
            objective=LabelCrossEntropy(),
            settings=settings(5),
            validate=lambda model: found,
        )
    assert caught.value.hint


def test_a_score_of_ones_own_selects_the_best_model(tmp_path, rows):
    scores = iter([9.0, 7.0, 8.0])
    state = fit(
        linear(),
        rows,
        tmp_path / "run",
        objective=LabelCrossEntropy(),
        settings=settings(15, best_metric="-perplexity"),
        validate=lambda model: {"perplexity": next(scores)},
    )
    assert (state.best_value, state.best_step) == (7.0, 10)
    with pytest.raises(UserError, match="returned 'other', but not 'loss'") as caught:
        fit(
            linear(),
            rows,
            tmp_path / "other",
            objective=LabelCrossEntropy(),
            settings=settings(5),
            validate=lambda model: {"other": 1.0},
        )
    assert "'-other' (less is better)" in caught.value.hint


def test_a_validation_may_return_tensors(tmp_path, rows):
    state = fit(
        linear(),
        rows,
        tmp_path / "run",
        objective=LabelCrossEntropy(),
        settings=settings(5),
        validate=lambda model: {"loss": torch.tensor(0.5)},
    )
    assert state.best_value == 0.5


def test_a_loss_whose_likelihood_has_a_gradient_gives_no_warning(tmp_path, rows):
    def objective(model, batch):
        total = loss_of(model, batch)
        return Loss(total=total, nll=total, num_targets=len(batch.labels))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(linear(), rows, tmp_path / "run", objective=objective, settings=settings(5))


def test_the_state_prints_as_a_short_text(tmp_path, rows):
    state = fit(linear(), rows, tmp_path / "run", objective=LabelCrossEntropy(), settings=settings(5))
    assert "step=5" in repr(state)
    assert len(repr(state)) < 1000


def test_the_best_weights_load_into_a_module(tmp_path, rows):
    """With a moving average, the module has the raw weights, and the best value is the average's."""
    model = linear()
    state = fit(
        model,
        rows,
        tmp_path / "run",
        objective=LabelCrossEntropy(),
        settings=settings(10, moving_average=0.9),
    )
    assert state.best_step == 10
    best = RunFolder(tmp_path / "run").best()
    averaged = linear()
    averaged.load_state_dict(best.read_tensors("model.safetensors"))
    assert not torch.equal(averaged.weight, model.weight)
    expected = nn.functional.cross_entropy(averaged(rows.inputs), rows.labels).item()
    assert state.best_value == pytest.approx(expected, rel=1e-5)


def test_the_best_weights_load_as_the_page_says(tmp_path, rows, monkeypatch):
    page = Path(__file__).parents[2] / "docs/extending.md"
    [code] = re.findall(r"```python\n([^`]*RunFolder[^`]*)```", page.read_text("utf-8"))
    monkeypatch.chdir(tmp_path)
    fit(linear(), rows, "runs/bigram", objective=LabelCrossEntropy(), settings=settings(5))
    model = linear(seed=2)
    exec(code, {"model": model})
    trained = RunFolder("runs/bigram").best().read_tensors("model.safetensors")
    assert torch.equal(model.weight, trained["weight"])


def test_a_registered_loss_without_a_gradient_has_its_name(rows):
    base = ShareObjective(CustomLoss(name="mine", function=detached, base=LabelCrossEntropy()))
    with pytest.raises(UserError, match="the loss of 'mine' has no gradient"):
        gradients._refuse_without_gradient(torch.zeros(()), base)


def test_an_objective_of_regard_within_others_is_its_own_unless_a_registered_loss_is_in_it():
    loss = CustomLoss(name="mine", function=detached, base=LabelCrossEntropy())
    assert is_own(RDrop(base=CrossEntropy()))
    assert is_own(ShareObjective(LabelCrossEntropy()))
    assert not is_own(ShareObjective(loss))
    assert not is_own(ShareObjective(detached))


@pytest.fixture
def pairs():
    return SequencePairs([[4, 5]] * 8, [[6, 7]] * 8)


def encoder_decoder(kind=EncoderDecoder):
    size = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
    return kind(EncoderDecoderConfig(src_vocab_size=9, tgt_vocab_size=9, **size))


def test_an_id_beyond_the_vocabulary_is_named(tmp_path):
    pairs = SequencePairs([[99, 4]] * 8, [[6, 7]] * 8)
    with pytest.raises(DataError, match="an embedding does not have an id"):
        fit(encoder_decoder(), pairs, tmp_path / "run", objective=CrossEntropy(), settings=settings(2))


@pytest.mark.parametrize(
    ("examples", "objective", "valid", "what"),
    [
        (1, 0, None, "pad_id is 1 in the examples, 0 in the objective, 0 in the model"),
        (0, 1, None, "pad_id is 0 in the examples, 1 in the objective, 0 in the model"),
        (1, 1, None, "pad_id is 1 in the examples, 1 in the objective, 0 in the model"),
        (0, 0, 1, "pad_id is 1 in the validation examples, 0 in the objective, 0 in the model"),
    ],
)
def test_examples_objective_and_model_share_the_id_of_padding(tmp_path, examples, objective, valid, what):
    def padded(pad_id):
        return SequencePairs([[4, 5], [6]], [[5], [4, 6]], pad_id=pad_id)

    with pytest.raises(ConfigError, match=what):
        fit(
            encoder_decoder(),
            padded(examples),
            tmp_path / "run",
            objective=RDrop(base=CrossEntropy(pad_id=objective)),
            settings=settings(2),
            valid=None if valid is None else padded(valid),
        )
    assert not (tmp_path / "run").exists()


def test_a_forward_that_nothing_calls_is_refused(tmp_path, pairs):
    class Doubled(EncoderDecoder):
        def forward(self, src_ids, src_lengths, tgt_ids):
            return 2 * super().forward(src_ids, src_lengths, tgt_ids)

    class AlsoDoubled(Doubled):
        def project(self, hidden):
            return 2 * super().project(hidden)

    class Calling(CrossEntropy):
        def __call__(self, model, batch):
            return model(batch)

    for objective in (CrossEntropy(), RDrop(base=CrossEntropy()), ShareObjective(CrossEntropy())):
        with pytest.raises(
            ConfigError, match="Doubled overrides forward, which training by CrossEntropy"
        ) as raised:
            refuse_unused_forward(encoder_decoder(Doubled), objective)
        assert raised.value.hint.startswith("override encode or decoder_states or project")
    with pytest.raises(ConfigError, match="Doubled overrides forward"):
        fit(encoder_decoder(Doubled), pairs, tmp_path / "run", objective=CrossEntropy(), settings=settings(2))
    assert not (tmp_path / "run").exists()
    loader, run = Loader(pairs, LoaderSettings(), seed=1), RunFolder(tmp_path / "run")
    with pytest.raises(ConfigError, match="Doubled overrides forward"):
        Trainer(
            encoder_decoder(Doubled),
            CrossEntropy(),
            loader,
            settings(2),
            run,
            {},
            validate=None,
            report=print,
        )
    for objective in (LabelCrossEntropy(), Calling(), SimpleNamespace(base=CrossEntropy())):
        refuse_unused_forward(encoder_decoder(Doubled), objective)  # which may call it
    fit(encoder_decoder(AlsoDoubled), pairs, tmp_path / "of", objective=CrossEntropy(), settings=settings(2))


@pytest.mark.parametrize(("name", "kind"), [("settings", "TrainingSettings"), ("batches", "LoaderSettings")])
def test_settings_of_another_type_are_named(name, kind, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse them first
    default = {"settings": TrainingSettings(), "batches": LoaderSettings()}
    with pytest.raises(RecipeError, match=f"{name} is dict, not {kind}"):
        refuse_unused_settings(*{**default, name: {"max_steps": 3}}.values(), None, has_validate=False)
