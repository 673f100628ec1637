"""A model that gives probabilities where an objective needs logits is refused before it is trained."""

import unittest.mock

import pytest
import torch
from torch import nn

from regard.data import TensorExamples
from regard.data.batch import IGNORED, are_targets
from regard.errors import ConfigError
from regard.training import LabelCrossEntropy, Loss, ScheduleSettings, TrainingSettings, fit

RATE = ScheduleSettings(kind="constant", learning_rate=0.05, warmup_steps=1)
SETTINGS = TrainingSettings(max_steps=2, validate_every=2, save_every=2, schedule=RATE)
INPUTS = torch.randn(60, 4, generator=torch.Generator().manual_seed(1))
ROWS = TensorExamples(INPUTS, INPUTS[:, :3].argmax(dim=1))


class Classifier(nn.Module):
    """Probabilities in some modes; a norm keeps means of its inputs."""

    def __init__(self, *modes):
        super().__init__()
        torch.manual_seed(1)
        self.modes, self.norm, self.output = modes, nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x):
        logits = self.output(self.norm(x))
        return logits.softmax(dim=-1) if self.training in self.modes else logits


def trained(model, folder, examples=ROWS, **others):
    fit(model, examples, folder, **{"objective": LabelCrossEntropy(), "settings": SETTINGS, **others})
    return model


def test_probabilities_are_refused_by_name_before_an_update(tmp_path):
    model = Classifier(True, False)
    before = {name: each.clone() for name, each in model.state_dict().items()}
    with pytest.raises(ConfigError, match="Classifier gives probabilities, not logits") as caught:
        trained(model, tmp_path)
    assert "leave out its softmax" in caught.value.hint
    assert all(torch.equal(each, before[name]) for name, each in model.state_dict().items())


def test_the_logarithms_of_probabilities_are_logits(tmp_path):
    trained(nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(dim=-1)), tmp_path)


def test_probabilities_in_evaluation_would_be_validated(tmp_path):
    with pytest.raises(ConfigError, match="Classifier in evaluation gives probabilities"):
        trained(Classifier(False), tmp_path / "own")
    trained(Classifier(False), tmp_path / "yours", validate=lambda model: {"loss": 1.0})


def likelihood(model, batch):
    nll = -model(*batch.inputs).log()[torch.arange(len(batch.labels)), batch.labels].sum()
    return Loss(total=nll, nll=nll.detach(), num_targets=len(batch.labels))


class OfProbabilities(LabelCrossEntropy):
    def of_logits(self, logits, labels):
        return super().of_logits(logits.log(), labels)


@pytest.mark.parametrize("objective", [likelihood, OfProbabilities()])
def test_another_objective_may_take_probabilities(tmp_path, objective):
    trained(Classifier(True, False), tmp_path, objective=objective)


def test_the_trial_changes_nothing_of_the_training(tmp_path, monkeypatch):
    tried = trained(Classifier(), tmp_path / "tried").state_dict()
    for name in ("trainer", "fitting"):
        trial = f"regard.training.{name}.refuse_model_of_probabilities"
        monkeypatch.setattr(trial, lambda *given, **others: None)
    untried = trained(Classifier(), tmp_path / "untried").state_dict()
    assert all(torch.equal(tried[name], untried[name]) for name in tried)


def test_each_mode_is_tried_once_before_the_first_update(tmp_path):
    model, modes = Classifier(), []
    model.register_forward_pre_hook(lambda module, inputs: modes.append(module.training))
    launch = unittest.mock.patch("regard.training.trainer.launch", side_effect=InterruptedError)
    with launch, pytest.raises(InterruptedError):
        trained(model, tmp_path)
    assert modes == [False, True]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_labels_are_whole_numbers_of_any_size(tmp_path, dtype):
    """PyTorch's losses take int64 alone."""
    models = [
        trained(Classifier(), tmp_path / name, examples=TensorExamples(INPUTS, labels))
        for name, labels in (("long", ROWS.labels), ("other", ROWS.labels.to(dtype)))
    ]
    assert torch.equal(*(model.output.weight for model in models))
    assert are_targets(torch.tensor([IGNORED % 256]).to(dtype)).all(), "a label of uint8 is not IGNORED"


def test_labels_that_are_no_whole_numbers_are_named(tmp_path):
    examples = TensorExamples(INPUTS, ROWS.labels.float())
    with pytest.raises(ConfigError, match=r"labels have dtype torch\.float32") as caught:
        trained(Classifier(), tmp_path, examples=examples)
    assert "labels.long()" in caught.value.hint
