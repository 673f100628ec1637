"""Heads ignore padding, select positions, and find the best spans."""

import itertools

import pytest
import torch

from regard.models.heads import (
    ClassificationHead,
    MaskedLanguageModelHead,
    PooledHead,
    RegressionHead,
    ReplacedTokenHead,
    SpanHead,
    TokenHead,
    best_spans,
    pooled,
)

HIDDEN = torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([5, 2, 0])
PLACES = torch.tensor([[0, 1, 0, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]).bool()


def test_means_and_maxima_are_of_real_states():
    mean, maximum = (pooled(HIDDEN, LENGTHS, pooling) for pooling in ("mean", "max"))
    for row, length in enumerate([5, 2]):
        torch.testing.assert_close(mean[row], HIDDEN[row, :length].mean(dim=0))
        assert torch.equal(maximum[row], HIDDEN[row, :length].amax(dim=0))
    assert torch.equal(pooled(HIDDEN, LENGTHS, "cls"), HIDDEN[:, 0])


def test_not_even_what_is_not_a_number_leaks_out_of_the_padding():
    spoilt = HIDDEN.clone()
    spoilt[1, 2:], spoilt[2] = torch.nan, torch.inf
    for pooling in ("mean", "max"):
        assert torch.equal(pooled(spoilt, LENGTHS, pooling), pooled(HIDDEN, LENGTHS, pooling))


def test_replaced_tokens_have_a_logit_each():
    head = ReplacedTokenHead(8, activation="relu")
    expected = head.output(head.transform(HIDDEN).relu())[..., 0]
    torch.testing.assert_close(head(HIDDEN, LENGTHS), expected)
    assert head(HIDDEN, LENGTHS, PLACES).shape == (3,)
    torch.testing.assert_close(head(HIDDEN, LENGTHS, PLACES), expected[PLACES])


def test_masked_tokens_may_have_narrow_embeddings():
    embedding = torch.nn.Parameter(torch.randn(11, 5))
    head = MaskedLanguageModelHead(8, embedding, torch.nn.LayerNorm(embedding.shape[1]))
    assert head(HIDDEN, LENGTHS).shape == (3, 5, 11)
    assert head.transform.weight.shape == (5, 8)


def test_a_text_without_tokens_is_zero():
    for pooling in ("mean", "max"):
        assert not pooled(HIDDEN, LENGTHS, pooling)[2].any()


def test_the_pooler_is_a_layer_with_tanh():
    with_layer, without = PooledHead(8, "mean", layer=True), PooledHead(8, "mean", layer=False)
    vector = without(HIDDEN, LENGTHS)
    assert list(without.parameters()) == []
    assert torch.equal(with_layer(HIDDEN, LENGTHS), with_layer.layer(vector).tanh())


def test_classes_and_numbers_are_linear_in_the_pooled_vector():
    head = ClassificationHead(PooledHead(8, "max", layer=False), 8, 4, dropout=0.0)
    expected = pooled(HIDDEN, LENGTHS, "max") @ head.output.weight.T + head.output.bias
    torch.testing.assert_close(head(HIDDEN, LENGTHS), expected)
    numbers = RegressionHead(PooledHead(8, "max", layer=True), 8, dropout=0.0, mean=10.0, std=2.0)
    assert numbers(HIDDEN, LENGTHS).shape == (3,)
    standard = numbers.output(numbers.pooler(HIDDEN, LENGTHS))[:, 0]
    torch.testing.assert_close(numbers(HIDDEN, LENGTHS), 10 + 2 * standard)


def test_places_choose_rows_in_order():
    for head in (
        TokenHead(8, 4, dropout=0.0),
        MaskedLanguageModelHead(8, torch.nn.Parameter(torch.randn(11, 8)), torch.nn.LayerNorm(8)),
    ):
        everywhere = head(HIDDEN, LENGTHS)
        chosen = head(HIDDEN, LENGTHS, PLACES)
        assert chosen.shape == (3, everywhere.size(-1))
        expected = torch.stack([everywhere[0, 1], everywhere[0, 3], everywhere[1, 0]])
        torch.testing.assert_close(chosen, expected)


def test_no_answer_starts_or_ends_where_there_is_no_text():
    head = SpanHead(8, dropout=0.0)
    logits = head(HIDDEN, LENGTHS)
    assert logits.shape == (3, 2, 5)
    assert logits[0].isfinite().all()
    assert logits[1, :, :2].isfinite().all()
    assert (logits[1, :, 2:] == -torch.inf).all()
    only = head(HIDDEN, LENGTHS, PLACES)
    assert torch.equal(only[:2].isfinite(), PLACES[:2, None].expand(2, 2, 5))


def test_a_text_without_a_place_for_an_answer_has_none_for_certain():
    """The first token says so; nothing is NaN, nor is a gradient."""
    head, hidden = SpanHead(8, dropout=0.0), HIDDEN.clone().requires_grad_()
    nowhere = torch.zeros(3, 5, dtype=torch.bool)
    for logits in (head(hidden, LENGTHS, nowhere), head(hidden, torch.zeros(3, dtype=torch.int64))):
        assert torch.equal(logits.isfinite(), (torch.arange(5) == 0).expand(3, 2, 5))
        spans, scores = best_spans(logits, 3)
        assert spans.tolist() == [[0, 0]] * 3
        assert scores.tolist() == [0.0] * 3
        (gradient,) = torch.autograd.grad(logits[:, :, 0].sum(), hidden)
        assert gradient.isfinite().all()


@pytest.mark.parametrize("max_length", [1, 2, 3, 7])
def test_spans_are_found_as_by_trying_all(max_length):
    logits = torch.randn(40, 2, 6, generator=torch.Generator().manual_seed(max_length))
    logits[:, :, 5] = -torch.inf
    spans, scores = best_spans(logits, max_length)
    start, end = logits.log_softmax(-1).unbind(1)
    for row in range(40):
        tried = {
            (i, j): (start[row, i] + end[row, j]).item()
            for i, j in itertools.product(range(6), repeat=2)
            if i <= j < i + max_length
        }
        best = max(tried, key=tried.__getitem__)
        assert tuple(spans[row].tolist()) == best
        assert scores[row].item() == pytest.approx(tried[best])


def test_of_equal_spans_the_first_counts_and_none_may_be_empty():
    assert best_spans(torch.zeros(1, 2, 4), 2)[0].tolist() == [[0, 0]]
    with pytest.raises(ValueError, match="max_length"):
        best_spans(torch.zeros(1, 2, 4), 0)
