"""Training without a recipe: the same loop, resumed to the bit, for models of regard and for any module."""

import pytest
import torch
from torch import nn

from regard.data import LoaderSettings, SequencePairs, TensorExamples
from regard.errors import RecipeError
from regard.models import EncoderDecoderConfig
from regard.models.build import build_model
from regard.training import CrossEntropy, LabelCrossEntropy, ScheduleSettings, TrainingSettings, fit
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
