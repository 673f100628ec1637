"""R-Drop is the mean loss of two passes and their divergence, whatever the task predicts."""

import pytest
import torch
import torch.nn.functional as F

from regard.data.batch import IGNORED, collate
from regard.data.texts import LabelledTextBatch
from regard.data.token_stream import TextBatch
from regard.errors import RecipeError
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.training.losses import CustomLoss
from regard.training.objective import CrossEntropy, LabelCrossEntropy, NextToken, SquaredError
from regard.training.r_drop import RDrop, refuse_without_dropout, with_r_drop
from regard.training.settings import TrainingSettings

SMALL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "dropout": 0.5}
ROWS = torch.tensor([[5, 6, 7, 3], [4, 3, 0, 0], [4, 4, 9, 3]])
LINES, LENGTHS = torch.arange(1, 4), torch.tensor([4, 2, 4])


def translation():
    blocks = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    config = EncoderDecoderConfig(src_vocab_size=12, tgt_vocab_size=12, **blocks, **SMALL)
    sources, targets = [[5, 6, 7, 3], [4, 3]], [[2, 8, 9, 3], [2, 10, 3]]
    return config, collate(sources, targets, (1, 2), pad_id=0)


def continuation():
    config = DecoderOnlyConfig(vocab_size=12, num_layers=1, **SMALL)
    labels = torch.where(ROWS == 0, IGNORED, ROWS)[:, 1:]
    return config, TextBatch(lines=LINES, ids=ROWS[:, :-1], labels=labels, documents=None)


def classification():
    config = EncoderOnlyConfig(vocab_size=12, num_layers=1, head="classification", num_labels=3, **SMALL)
    return config, LabelledTextBatch(lines=LINES, ids=ROWS, lengths=LENGTHS, labels=torch.tensor([0, 2, 1]))


def tagging():
    config = EncoderOnlyConfig(vocab_size=12, num_layers=1, head="tokens", num_labels=3, **SMALL)
    places = (ROWS != 0) & (ROWS != 3)
    return config, LabelledTextBatch(
        lines=LINES, ids=ROWS, lengths=LENGTHS, labels=ROWS[places] % 3, places=places
    )


def twice(logits, labels):
    return 2 * F.cross_entropy(logits, labels, reduction="none")


CASES = {
    "translation": (translation, CrossEntropy(smoothing=0.1)),
    "continuation": (continuation, NextToken(smoothing=0.1)),
    "classification": (classification, LabelCrossEntropy(smoothing=0.1)),
    "weighted classes": (classification, LabelCrossEntropy(weights=(1.0, 3.0, 0.5))),
    "tagging": (tagging, LabelCrossEntropy()),
    "a registered loss": (
        classification,
        CustomLoss(name="twice", function=twice, base=LabelCrossEntropy()),
    ),
}
everywhere = pytest.mark.parametrize(("made", "base"), CASES.values(), ids=CASES)


@everywhere
def test_without_dropout_it_is_the_loss_itself(made, base):
    config, batch = made()
    net = build_model(config, seed=1).eval()
    torch.testing.assert_close(RDrop(base=base, weight=5.0)(net, batch).total, base(net, batch).total)


@everywhere
def test_it_adds_the_divergence_of_two_dropout_masks(made, base):
    """Half of equation 4 of Liang et al. 2021, with PyTorch's divergences."""
    config, batch = made()
    net = build_model(config, seed=1).train()
    torch.manual_seed(7)
    loss = RDrop(base=base, weight=3.0)(net, batch)
    torch.manual_seed(7)
    logits, labels = base.logits(net, batch)
    other, _ = base.logits(net, batch)
    p, q = logits.log_softmax(-1), other.log_softmax(-1)
    divergence = (
        F.kl_div(p, q, log_target=True, reduction="sum") + F.kl_div(q, p, log_target=True, reduction="sum")
    ) / 2
    losses = [base.of_logits(each, labels) for each in (logits, other)]
    assert divergence > 1e-5
    torch.testing.assert_close(loss.total, sum(each.total for each in losses) / 2 + 3.0 / 2 * divergence)
    torch.testing.assert_close(loss.nll, sum(each.nll for each in losses) / 2)
    assert loss.num_targets == losses[0].num_targets == labels.numel()


def test_a_weight_of_0_leaves_the_objective_as_it_is():
    base = CrossEntropy(smoothing=0.1, pad_id=7)
    assert with_r_drop(base, 0.0) is base
    assert with_r_drop(base, 0.5) == RDrop(base=base, weight=0.5)
    assert RDrop(base=base).weight == 5.0, "the paper's"


def test_what_does_not_predict_classes_is_refused():
    with pytest.raises(RecipeError, match=r"training\.r_drop: SquaredError is not a function of logits"):
        with_r_drop(SquaredError(), 1.0)
    assert with_r_drop(SquaredError(), 0.0) == SquaredError()


def test_a_model_without_dropout_is_refused_and_one_of_others_is_not_known():
    plain = {**SMALL, "dropout": 0.0, "attention_dropout": 0.0, "head_dropout": 0.0}
    config = EncoderOnlyConfig(vocab_size=12, num_layers=1, head="classification", num_labels=3, **plain)
    model = build_model(config, seed=0)
    with pytest.raises(RecipeError, match=r"training\.r_drop = 2.0 has no effect: the model has no dropout"):
        refuse_without_dropout(model, 2.0)
    model.dropout = torch.nn.Dropout(0.1)
    refuse_without_dropout(model, 2.0)
    for other in ({"dropout": 0.0}, object(), None):
        own = torch.nn.Linear(2, 2)
        own.config = other
        refuse_without_dropout(own, 2.0)


@pytest.mark.parametrize("weight", [float("nan"), float("inf"), -1.0])
def test_a_weight_that_is_no_number_from_0_on_is_refused(weight):
    with pytest.raises(RecipeError, match=r"training\.r_drop must be (0 or more|a finite number)"):
        TrainingSettings(r_drop=weight)
