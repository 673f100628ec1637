"""A registered loss replaces the task's own, and the reported loss remains the cross-entropy."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.errors import RecipeError, UserError
from regard.training import register_loss
from regard.training.losses import chosen_loss, refuse_unknown_loss
from regard.training.objective import CrossEntropy, LabelCrossEntropy, SquaredError
from regard.training.r_drop import RDrop
from regard.training.settings import TrainingSettings

LOGITS = torch.tensor([[1.0, 2.0, 0.0], [0.5, -1.0, 3.0]])
LABELS = torch.tensor([1, 2])


class OfThese:
    """An objective of these logits and labels."""

    def __call__(self, model, batch): ...

    def logits(self, model, batch):
        return LOGITS, LABELS


@pytest.fixture
def double():
    @register_loss("double")
    def double(logits, labels):
        return 2 * F.cross_entropy(logits, labels, reduction="none")

    return double


def test_a_registered_loss_is_what_is_made_smaller(double):
    loss = chosen_loss("double", OfThese())(None, None)
    plain = F.cross_entropy(LOGITS, LABELS, reduction="sum")
    torch.testing.assert_close(loss.total, 2 * plain)
    torch.testing.assert_close(loss.nll, plain)
    assert loss.num_targets == 2


def test_without_a_name_the_objective_stays():
    usual = LabelCrossEntropy()
    assert chosen_loss("", usual) is usual


def test_an_unknown_name_is_refused_with_the_nearest(double):
    with pytest.raises(RecipeError, match="doubel") as caught:
        chosen_loss("doubel", LabelCrossEntropy())
    assert "'double'" in caught.value.hint
    assert 'training.loss = ""' in caught.value.hint  # the loss of the task itself has no name
    assert "register_loss" in caught.value.hint


@pytest.mark.parametrize(
    "usual", [SquaredError(), RDrop(base=CrossEntropy()), LabelCrossEntropy(weights=(1.0, 2.0, 1.0))], ids=str
)
def test_what_cannot_have_another_loss_is_refused(double, usual):
    with pytest.raises(RecipeError, match=r"training\.loss"):
        chosen_loss("double", usual)


def test_a_loss_that_is_not_one_number_for_each_target_is_refused():
    register_loss("mean")(F.cross_entropy)
    with pytest.raises(RecipeError, match=r"'mean' returns \(\) for 2 targets"):
        chosen_loss("mean", OfThese())(None, None)
    register_loss("list")(lambda logits, labels: [1.0, 2.0])
    with pytest.raises(RecipeError, match="'list' returns list for 2 targets"):
        chosen_loss("list", OfThese())(None, None)


def test_the_options_of_a_recipe_are_arguments_of_the_loss():
    @register_loss("scaled")
    def scaled(logits, labels, *, factor=1.0):
        return factor * F.cross_entropy(logits, labels, reduction="none")

    plain, tripled = (
        chosen_loss("scaled", OfThese(), options)(None, None).total for options in ({}, {"factor": 3.0})
    )
    torch.testing.assert_close(tripled, 3 * plain)
    with pytest.raises(RecipeError, match=r"training\.loss_options: the loss 'scaled': .*'factr'") as refused:
        chosen_loss("scaled", OfThese(), {"factr": 3.0})
    assert "'factor'" in refused.value.hint
    with pytest.raises(RecipeError, match="have no effect without"):
        TrainingSettings(loss_options={"factor": 3.0})


def test_a_loss_with_options_can_be_a_key_as_any_objective():
    register_loss("scaled")(lambda logits, labels, *, factor=1.0: factor * logits.sum(-1))
    loss = chosen_loss("scaled", LabelCrossEntropy(), {"factor": 2.0})
    assert loss in {loss}


def test_a_loss_needs_a_name():
    with pytest.raises(UserError, match="name"):
        register_loss("")


class Scaled(nn.Module):
    """A loss with a factor."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, logits, labels):
        return self.factor * F.cross_entropy(logits, labels, reduction="none")


def test_what_would_not_be_trained_or_called_is_no_loss():
    with pytest.raises(UserError, match="has parameters, which would not be trained: factor"):
        register_loss("scaled")(Scaled(nn.Parameter(torch.ones(()))))
    with pytest.raises(UserError, match="'scaled' is a class") as raised:
        register_loss("scaled")(Scaled)
    assert "Scaled(...)" in raised.value.hint
    with pytest.raises(UserError, match="'scaled' is float"):
        register_loss("scaled")(2.0)
    register_loss("scaled")(Scaled(nn.Parameter(torch.ones(()), requires_grad=False)))
    register_loss("scaled")(Scaled(2.0))
    assert chosen_loss("scaled", OfThese())(None, None).num_targets == 2


def test_what_a_loss_raises_is_named():
    register_loss("crash")(lambda logits, labels: logits[:, 10**6])
    with pytest.raises(RecipeError, match="the loss 'crash' fails: IndexError"):
        chosen_loss("crash", OfThese())(None, None)


def test_a_loss_that_does_not_take_logits_and_labels_is_refused():
    with pytest.raises(UserError, match="the loss 'one': too many positional arguments") as raised:
        register_loss("one")(lambda logits: logits)
    assert "logits, labels" in raised.value.hint
    with pytest.raises(UserError, match="the loss 'linear': too many positional arguments"):
        register_loss("linear")(nn.Identity())


def test_an_option_that_a_decorator_hides_is_refused_before_there_are_data():
    def without_names(*given, **options):
        return F.cross_entropy(*given, reduction="none", **options)

    register_loss("hidden")(without_names)
    refuse_unknown_loss("hidden", {"label_smoothing": 0.1})
    with pytest.raises(RecipeError, match=r"loss_options: the loss 'hidden': .*'label_smoothng'"):
        refuse_unknown_loss("hidden", {"label_smoothng": 0.1})
