"""Samples follow the distribution, and depend on the seed, the request and the step alone."""

from collections import Counter

import numpy as np
import pytest
import torch

from regard.decoding.batches import decode_all
from regard.decoding.hypothesis import Request
from regard.decoding.rules import BannedTokens, LengthLimits, MinimumLength
from regard.decoding.sampling import (
    MinP,
    RandomChoice,
    Sampling,
    Temperature,
    TopK,
    TopP,
    Typical,
    _mix,
    uniform_noise,
)
from regard.decoding.scoring import forced_scores
from regard.decoding.search import GreedySearch
from regard.errors import ConfigError
from regard.fast.native import kernels
from regard.fast.native.sampling import sample_tokens
from tests.decoding.small_models import translator

SOURCES = [[4, 5], [6, 4, 4], [5], [4], [4]]
REQUESTS = [Request(src_len=len(source), index=index) for index, source in enumerate(SOURCES)]


def test_numbers_are_mixed_as_published():
    """The first outputs of SplitMix64 with the seed 0, as its author's program gives them."""
    steps = np.array([0, 0x9E3779B97F4A7C15, 2 * 0x9E3779B97F4A7C15 % 2**64], np.uint64)
    assert _mix(steps).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_samples_are_as_frequent_as_they_are_probable(make_table):
    table = make_table(vocab=7)
    count = 4000
    search = Sampling(
        n_best=count, limits=LengthLimits(ratio=0.0, offset=1), rules=(MinimumLength(length=1, eos_id=3),)
    )
    drawn = search(table.read([[4]]), [Request(src_len=1)])[0]
    frequencies = Counter(each.ids[0] for each in drawn)
    probabilities = table.log_probs((4,), (2,)).exp()
    probabilities[3] = 0
    for token, probability in enumerate((probabilities / probabilities.sum()).tolist()):
        deviation = (probability * (1 - probability) / count) ** 0.5
        assert frequencies[token] / count == pytest.approx(probability, abs=4 * deviation)


def test_texts_of_two_tokens_are_as_frequent_as_temperature_and_filters_make_them(make_table):
    """By chi-square: what each filter keeps is computed here token by token."""
    table, count, allowed = make_table(vocab=8), 6000, range(4, 8)
    rules = (BannedTokens(ids=(0, 1, 2)), MinimumLength(length=2, eos_id=3))
    filters = (Temperature(temperature=0.7), TopK(k=3), TopP(p=0.9))
    search = Sampling(n_best=count, limits=LengthLimits(ratio=0.0, offset=2), rules=rules, filters=filters)
    drawn = Counter(tuple(each.ids) for each in search(table.read([[4]]), [Request(src_len=1)])[0])
    expected = {
        (first, second): share * rest
        for first, share in kept(table.log_probs((4,), (2,)), allowed).items()
        for second, rest in kept(table.log_probs((4,), (2, first)), allowed).items()
    }
    assert set(drawn) <= set(expected)
    chi_square = sum((drawn[ids] - count * p) ** 2 / (count * p) for ids, p in expected.items())
    freedom = len(expected) - 1
    assert freedom > 2
    assert chi_square < freedom + 4 * (2 * freedom) ** 0.5


def kept(log_probs, allowed):
    """Frequencies with temperature 0.7, then top-k 3, then top-p 0.9."""
    weights = {token: float(log_probs[token] / 0.7) for token in allowed}
    best = sorted(weights, key=weights.get, reverse=True)[:3]
    shares = torch.tensor([weights[token] for token in best]).softmax(-1).tolist()
    number = next(n for n in range(1, 4) if sum(shares[:n]) >= 0.9 or n == 3)
    total = sum(shares[:number])
    return {token: share / total for token, share in zip(best[:number], shares[:number], strict=True)}


def test_a_sample_is_scored_by_the_model_and_not_by_the_filters(make_table):
    table = make_table(vocab=7)
    search = Sampling(filters=(Temperature(temperature=0.5), TopK(k=2)))
    for source, (sample,) in zip(SOURCES, search(table.read(SOURCES), REQUESTS), strict=True):
        expected = table.hypothesis(source, sample.ids, lambda length: 1.0)
        assert sample.token_log_probs == expected.token_log_probs  # to the bit: they are what the table gives


def test_a_forced_prefix_has_the_log_probabilities_of_the_model_too():
    model, sources, prefixes = translator(), [[4, 5, 9], [6]], [[7, 8], [9]]
    search = Sampling(limits=LengthLimits(ratio=0.0, offset=5), rules=(BannedTokens(ids=(0, 2)),))
    found = [each for [each] in decode_all(search, model, sources, prefixes=prefixes)]
    pairs = [(source, each.ids) for source, each in zip(sources, found, strict=True)]
    for prefix, sample, forced in zip(prefixes, found, forced_scores(model, pairs), strict=True):
        assert sample.ids[: len(prefix)] == prefix
        assert sample.token_log_probs == pytest.approx(forced.token_log_probs, abs=1e-4)


def test_a_sample_depends_on_no_neighbour_but_on_seed_and_index(make_table):
    together = Sampling(seed=5, n_best=3)(make_table().read(SOURCES), REQUESTS)
    alone = [
        Sampling(seed=5, n_best=3)(make_table().read([source]), [request])[0]
        for source, request in zip(SOURCES, REQUESTS, strict=True)
    ]
    assert together == alone
    assert together[3] != together[4]  # the same source at another index
    assert len({tuple(each.ids) for each in together[1]}) > 1
    assert together != Sampling(seed=6, n_best=3)(make_table().read(SOURCES), REQUESTS)


def test_top_k_of_one_is_greedy(make_table):
    greedy = GreedySearch()(make_table().read(SOURCES), REQUESTS)
    assert Sampling(filters=(TopK(k=1),))(make_table().read(SOURCES), REQUESTS) == greedy
    assert Sampling(filters=(TopP(p=1e-9),))(make_table().read(SOURCES), REQUESTS) == greedy
    assert Sampling(filters=(Temperature(temperature=1e-3),))(make_table().read(SOURCES), REQUESTS) == greedy


def test_where_the_rules_leave_nothing_a_sample_ends(make_table):
    rules = (BannedTokens(ids=(0, 1, 2, 4, 5, 6)), MinimumLength(length=3, eos_id=3))
    assert [each[0].ids for each in Sampling(rules=rules)(make_table().read(SOURCES), REQUESTS)] == [[]] * 5


def test_top_k_keeps_k_tokens_and_of_equal_ones_the_lower_ids():
    logits = torch.tensor([[1.0, 3.0, 1.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    kept = TopK(k=3)(logits).isfinite().tolist()
    assert kept == [[True, True, False, True, False], [True, True, True, False, False]]
    assert torch.equal(TopK(k=9)(logits), logits)


def test_top_p_keeps_the_fewest_tokens_that_hold_p():
    logits = torch.tensor([[0.1, 0.5, 0.15, 0.25]]).log()
    for p, expected in [
        (0.4, [1]),
        (0.6, [1, 3]),
        (0.8, [1, 2, 3]),
        (0.95, [0, 1, 2, 3]),
        (1.0, [0, 1, 2, 3]),
    ]:
        kept = TopP(p=p)(logits)
        assert kept[0].isfinite().nonzero().flatten().tolist() == expected
        assert torch.equal(kept[kept.isfinite()], logits[kept.isfinite()])


def test_top_p_and_typical_p_take_no_token_more_once_they_hold_p_exactly():
    """Shares of a quarter and their sums are exact in float32: half of the probability is two tokens."""
    alike = torch.zeros(1, 4)
    for filtered in (TopP(p=0.5), Typical(p=0.5)):
        assert filtered(alike).isfinite().tolist() == [[True, True, False, False]]
    for filtered in (TopP(p=0.25), Typical(p=0.25)):
        assert filtered(alike).isfinite().tolist() == [[True, False, False, False]]


def test_min_p_keeps_a_token_of_exactly_p_times_the_greatest_probability():
    logits = torch.tensor([[0.0, 0.0, -1.0], [-5.0, 2.0, 2.0]])
    assert MinP(p=1.0)(logits).tolist() == [[0.0, 0.0, -torch.inf], [-torch.inf, 2.0, 2.0]]
    share = float(logits[0].softmax(dim=0)[2] / logits[0].softmax(dim=0)[0])
    assert torch.equal(MinP(p=share * 0.999)(logits[:1]), logits[:1])
    assert MinP(p=share * 1.001)(logits[:1]).isfinite().tolist() == [[True, True, False]]
    assert torch.equal(MinP(p=0.0)(logits), logits)


def test_typical_p_keeps_the_tokens_whose_information_is_nearest_the_entropy():
    """Meister et al. 2023: the most probable token is not always among them."""
    logits = torch.tensor([[0.4, 0.3, 0.15, 0.1, 0.05, 0.0]]).log()
    shares = logits.exp()[0]
    entropy = -(shares[:5] * shares[:5].log()).sum()
    order = sorted(range(6), key=lambda token: abs(-float(shares[token].log()) - float(entropy)))
    assert order[0] == 1
    for p, count in ((0.2, 1), (0.4, 2), (0.8, 3), (0.9, 4), (1.0, 5)):
        kept = Typical(p=p)(logits)[0].isfinite().nonzero().flatten().tolist()
        assert kept == sorted(order[:count]), p


def test_temperature_divides():
    assert torch.equal(Temperature(temperature=2.0)(torch.tensor([[2.0, -4.0]])), torch.tensor([[1.0, -2.0]]))


def test_a_random_number_selects_the_token_in_whose_share_it_lies():
    """A token without a share is never selected, not even by the least number."""
    shares, noise = torch.tensor([[0.0, 0.25, 0.0, 0.75]] * 4), np.array([0.0, 0.2, 0.3, 1 - 2.0**-52])
    log_probs, ids = RandomChoice((), noise)(shares.log())
    assert ids.tolist() == [[1], [1], [3], [3]]
    assert np.exp(log_probs[:, 0]) == pytest.approx([0.25, 0.25, 0.75, 0.75])
    others = torch.nn.functional.pad(torch.randn(50, 30), (0, 1), value=-torch.inf)  # shares of other sums
    greatest = np.full(50, 1 - 2.0**-52)
    assert np.isfinite(RandomChoice((), greatest)(others)[0]).all()


@pytest.mark.skipif(not kernels.available(), reason="no C compiler")
@pytest.mark.parametrize(
    "filters", [(), (Temperature(temperature=0.5),), (TopK(k=4), MinP(p=0.1)), (TopP(p=0.7),)], ids=str
)
def test_the_kernel_samples_the_tokens_that_pytorch_does(filters):
    rows = 50
    logits, noise = (
        torch.randn(rows, 30, generator=torch.Generator().manual_seed(1)),
        np.linspace(0, 0.99, rows),
    )
    _, expected = RandomChoice(filters, noise)(logits)
    none, asked = torch.zeros(rows, 0, dtype=torch.int64), torch.zeros(rows, dtype=torch.int64)
    found = sample_tokens(logits, Sampling(filters=filters).kernel_filters, torch.tensor(noise), none, asked)
    assert np.array_equal(found.candidates[1].numpy(), expected)


@pytest.mark.parametrize(
    "filtered", [Temperature(temperature=0.5), TopK(k=3), TopP(p=0.6), MinP(p=0.3), Typical(p=0.6)], ids=str
)
def test_a_filter_changes_each_row_by_itself_and_allows_no_token_more(filtered):
    logits = torch.randn(4, 7)
    found = filtered(logits)
    assert torch.equal(found, torch.cat([filtered(row[None]) for row in logits]))
    assert isinstance(filtered, Temperature) or bool(((found == logits) | (found == -torch.inf)).all())


def test_noise_is_uniform_and_differs_in_all_that_it_is_made_of():
    rows = np.arange(20_000)
    noise = uniform_noise(1, rows, rows * 0, 0)
    assert ((noise >= 0) & (noise < 1)).all()
    assert np.histogram(noise, bins=10, range=(0, 1))[0].tolist() == pytest.approx([2000] * 10, abs=170)
    others = [
        uniform_noise(2, rows, rows * 0, 0),
        uniform_noise(1, rows, rows * 0 + 1, 0),
        uniform_noise(1, rows, rows * 0, 1),
    ]
    for other in others:
        assert abs(np.corrcoef(noise, other)[0, 1]) < 0.03
    assert np.array_equal(uniform_noise(1, rows[7:8], rows[:1], 0), noise[7:8])


def test_any_seed_counts_modulo_two_to_the_64th():
    rows = np.arange(20)
    for seed, same in ((2**64 + 5, 5), (2**65 + 5, 5), (-1, 2**64 - 1)):
        assert np.array_equal(uniform_noise(seed, rows, rows * 0, 0), uniform_noise(same, rows, rows * 0, 0))


@pytest.mark.parametrize(
    ("value", "message"),
    [(lambda: Temperature(temperature=0.0), "temperature is 0.0"), (lambda: TopK(k=0), "top_k is 0"),
     (lambda: TopP(p=0.0), "top_p is 0.0"), (lambda: TopP(p=1.5), "top_p is 1.5"),
     (lambda: TopP(p=float("nan")), "p must be a finite number, not nan"),
     (lambda: Typical(p=0.0), "typical_p is 0.0"),
     (lambda: Typical(p=1.5), "typical_p is 1.5"), (lambda: MinP(p=-0.1), "min_p is -0.1"),
     (lambda: MinP(p=1.1), "min_p is 1.1")],
)  # fmt: skip
def test_nonsense_is_refused(value, message):
    with pytest.raises(ConfigError, match=message):
        value()
