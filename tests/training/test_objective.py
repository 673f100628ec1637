"""Losses are sums over target tokens without padding; smoothing follows its usual definition."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.data.batch import IGNORED, collate
from regard.data.memory_examples import TensorBatch
from regard.data.token_stream import TextBatch
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.training import objective as objectives
from regard.training.objective import (
    CrossEntropy,
    LabelCrossEntropy,
    NextToken,
    SquaredError,
)
from regard.training.prefetch import prepared_for_gpu

PAIRS = [([5, 6, 7, 3], [2, 8, 9, 3]), ([4, 3], [2, 10, 3]), ([4, 4, 4, 4, 4, 3], [2, 7, 8, 9, 10, 11, 3])]


def batch_of(pairs=PAIRS):
    sources, targets = zip(*pairs, strict=True)
    return collate(sources, targets, range(1, len(pairs) + 1), pad_id=0)


def model(dropout=0.0):
    config = EncoderDecoderConfig(
        src_vocab_size=12,
        tgt_vocab_size=12,
        d_model=16,
        num_heads=2,
        d_ff=32,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=dropout,
    )
    return build_model(config, seed=1)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_cross_entropy_is_pytorchs_over_all_real_targets(smoothing):
    batch, net = batch_of(), model()
    loss = CrossEntropy(smoothing=smoothing)(net, batch)
    logits = net(batch.src_ids, batch.src_lengths, batch.tgt_input)
    expected = F.cross_entropy(
        logits.flatten(0, 1),
        batch.labels.flatten(),
        ignore_index=0,
        label_smoothing=smoothing,
        reduction="sum",
    )
    torch.testing.assert_close(loss.total, expected)
    assert loss.num_targets == batch.num_targets == sum(len(target) - 1 for _, target in PAIRS)


def test_the_likelihood_reported_is_without_smoothing():
    batch, net = batch_of(), model()
    torch.testing.assert_close(
        CrossEntropy(smoothing=0.3)(net, batch).nll, CrossEntropy(smoothing=0.0)(net, batch).total.detach()
    )


def test_a_batch_costs_the_sum_of_its_pairs():
    net, objective = model(), CrossEntropy(smoothing=0.1)
    together = objective(net, batch_of())
    alone = [objective(net, batch_of([pair])) for pair in PAIRS]
    torch.testing.assert_close(together.total, torch.stack([loss.total for loss in alone]).sum())


def test_logits_leave_the_model_not_probabilities():
    """A perfect model has a loss of 0; with a double softmax the minimum would be far above 0."""
    logits = torch.full((4, 10), -50.0)
    labels = torch.arange(4)
    logits[labels, labels] = 50.0
    assert CrossEntropy().of_log_probs(F.log_softmax(logits, dim=-1), labels).total < 1e-6


def labelled(outputs, labels):
    """A batch whose rows are the outputs of the model."""
    return TensorBatch(lines=torch.arange(len(labels)), rows_in=outputs, labels=labels)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weights", [None, (1.0, 2.0, 0.0)])
def test_labels_without_a_label_do_not_count_and_weights_do_not_change_the_likelihood(smoothing, weights):
    logits, labels = torch.randn(5, 3), torch.tensor([0, 2, IGNORED, 1, 1])
    loss = LabelCrossEntropy(smoothing=smoothing, weights=weights)(nn.Identity(), labelled(logits, labels))
    real, given = labels != IGNORED, None if weights is None else torch.tensor(weights)
    expected = F.cross_entropy(logits[real], labels[real], given, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.nll, F.cross_entropy(logits[real], labels[real], reduction="sum"))
    assert loss.num_targets == 4


def test_squared_errors_are_in_units_of_the_standard_deviation():
    batch = labelled(torch.tensor([1.0, 4.0]), torch.tensor([2, 0]))
    loss = SquaredError(std=2.0)(nn.Identity(), batch)
    assert loss.total == loss.nll == (1 / 2) ** 2 + (4 / 2) ** 2
    assert loss.num_targets == 2
    assert SquaredError()(nn.Identity(), batch).total == 17.0


def test_without_settings_nothing_is_smoothed():
    assert CrossEntropy().smoothing == NextToken().smoothing == LabelCrossEntropy().smoothing == 0.0


def test_a_loss_with_its_logits_is_the_same(monkeypatch):
    batch, net, taken, calls = batch_of(), model(), [], []
    linear = objectives.linear_cross_entropy
    monkeypatch.setattr(objectives, "linear_cross_entropy", lambda *given: calls.append(1) or linear(*given))
    for fused in (True, False):
        possible = fused and hasattr(F, "linear_cross_entropy")
        monkeypatch.setattr(objectives, "can_be_linear_cross_entropy", lambda *_, possible=possible: possible)
        loss = CrossEntropy(smoothing=0.1)(net, batch)
        assert len(calls) == possible, "the logits of all targets would take much memory"
        calls.clear()
        gradients = torch.autograd.grad(loss.total, list(net.parameters()))
        taken.append([loss.total, loss.nll, *gradients])
    for fast, plain in zip(*taken, strict=True):
        torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_next_token_of_running_text_is_a_label(smoothing):
    config = DecoderOnlyConfig(vocab_size=40, d_model=16, num_heads=2, d_ff=32, num_layers=1, dropout=0.0)
    model = build_model(config, seed=1).eval()
    ids = torch.arange(4, 36).view(2, 16)
    labels = (ids + 1).where(ids % 5 > 0, IGNORED)
    batch = TextBatch(ids=ids, labels=labels, documents=ids // 9, lines=torch.arange(2))
    ours, plain = (kind(smoothing=smoothing)(model, batch) for kind in (NextToken, LabelCrossEntropy))
    torch.testing.assert_close((ours.total, ours.nll), (plain.total, plain.nll))
    assert ours.num_targets == plain.num_targets


@pytest.mark.parametrize("kind", [CrossEntropy, NextToken, LabelCrossEntropy])
def test_the_loss_of_the_logits_is_that_of_the_batch(kind):
    config = DecoderOnlyConfig(vocab_size=12, d_model=16, num_heads=2, d_ff=32, num_layers=1, dropout=0.0)
    ids = torch.tensor([[4, 5, 6], [7, 8, 9]])
    texts = TextBatch(ids=ids, labels=ids + 1, documents=None, lines=torch.arange(2))
    net, batch = (
        (model(), batch_of()) if kind is CrossEntropy else (build_model(config, seed=1).eval(), texts)
    )
    objective = kind(smoothing=0.1)
    one, other = objective(net, batch), objective.of_logits(*objective.logits(net, batch))
    torch.testing.assert_close((one.total, one.nll), (other.total, other.nll))
    assert one.num_targets == other.num_targets


def test_targets_that_are_found_before_are_those_that_count():
    """A GPU need not be waited for then."""
    config = DecoderOnlyConfig(vocab_size=40, d_model=16, num_heads=2, d_ff=32, num_layers=1, dropout=0.0)
    writer, ids = build_model(config, seed=1).eval(), torch.arange(4, 36).view(2, 16)
    texts = TextBatch(
        ids=ids, labels=(ids + 1).where(ids % 5 > 0, IGNORED), documents=None, lines=torch.arange(2)
    )
    given = [
        (NextToken(), writer, texts, IGNORED),
        (LabelCrossEntropy(), writer, texts, IGNORED),
        (CrossEntropy(), model(), batch_of(), 0),
    ]
    for objective, net, batch, ignored in given:
        found = prepared_for_gpu(batch, ignored)
        assert len(found.targets) == batch.num_targets
        one, other = objective(net, batch), objective(net, found)
        torch.testing.assert_close((one.total, one.nll), (other.total, other.nll))
        assert one.num_targets == other.num_targets
