"""A mixture: an epoch reads of each corpus its share, each pair equally often, as seed and epoch decide."""

import numpy as np
import pytest

from regard.data import mixture_order
from regard.data.corpus_mixture import MixedCorpusSettings, Mixture
from regard.data.mixture_order import MixtureOrder
from regard.errors import RecipeError

SIZES = (1000, 130, 7)


def order(reads, window=200, seed=1):
    return MixtureOrder(SIZES, reads, window, seed=seed)


def epoch_of(mixture, epoch):
    return [mixture.window(epoch, number) for number in range(mixture.num_windows(epoch))]


def counts_of(mixture, epochs):
    read = np.concatenate([each for epoch in range(epochs) for each in epoch_of(mixture, epoch)])
    return np.split(np.bincount(read, minlength=sum(SIZES)), np.cumsum(SIZES)[:-1])


@pytest.mark.parametrize("window", [1, 50, 200, 10**6])
@pytest.mark.parametrize("reads", [(1000, 130, 7), (500, 400, 237), (3, 1, 1000)])
def test_an_epoch_reads_of_each_corpus_its_share_and_no_pair_a_second_time_too_soon(reads, window):
    mixture = order(reads, window)
    for epochs in (1, 3):
        counts = counts_of(mixture, epochs)
        assert [each.sum() for each in counts] == [epochs * each for each in reads]
        assert all(each.max() - each.min() <= 1 for each in counts)


@pytest.mark.parametrize("reads", [(1000, 130, 7), (500, 400, 237), (3, 1, 1000), (1, 5000, 20)])
def test_after_each_window_the_pairs_of_a_corpus_were_read_equally_often(monkeypatch, reads):
    monkeypatch.setattr(mixture_order, "LEAST_WINDOW", 1)
    mixture, read = order(reads, 300), np.zeros(sum(SIZES), np.int64)
    for epoch in range(2):
        for window in epoch_of(mixture, epoch):
            assert len(window) > 0
            read += np.bincount(window, minlength=len(read))
            for each in np.split(read, np.cumsum(SIZES)[:-1]):
                assert each.max() - each.min() <= 1


def test_windows_of_a_corpus_that_is_read_often_are_small_but_not_too_small():
    small = MixtureOrder((40_000, 500), (20_250, 20_250), 65_536, seed=1)
    assert {len(each) // 1000 for each in epoch_of(small, 0)} <= {4, 5}
    large = MixtureOrder((40_000, 20_000), (40_000, 20_000), 65_536, seed=1)
    assert large.num_windows(0) == 1


def test_a_small_temperature_leaves_little_of_small_corpora():
    assert Mixture(temperature=0.005).shares((200_000, 100_000)).tolist() == pytest.approx([1.0, 0.0])


def test_what_an_epoch_reads_is_a_function_of_seed_and_epoch():
    reads = (500, 400, 237)
    one, two = order(reads), order(reads)
    expected = epoch_of(one, 4)
    assert (two.window(4, 2) == expected[2]).all()  # in whatever order windows are asked for
    assert (one.window(0, 0) == two.window(0, 0)).all()
    first, other = (np.concatenate(epoch_of(each, 0)) for each in (one, order(reads, seed=2)))
    assert first.tolist() != other.tolist()
    assert np.concatenate(epoch_of(one, 5)).tolist() != np.concatenate(expected).tolist()


def test_windows_have_pairs_of_all_large_corpora():
    windows = epoch_of(MixtureOrder((4000, 2000), (3000, 3000), 1500, seed=1), 0)
    assert all(1000 < len(each) < 2000 for each in windows)
    assert all(0.2 < (each < 4000).mean() < 0.8 for each in windows)


def test_shares_are_those_of_the_weights_or_of_the_sizes_at_a_temperature():
    assert Mixture(weights=(3.0, 1.0, 1.0)).shares(SIZES).tolist() == pytest.approx([0.6, 0.2, 0.2])
    assert Mixture().reads(SIZES).tolist() == list(SIZES)
    flat = Mixture(temperature=1e9).shares(SIZES).tolist()
    assert flat == pytest.approx([1 / 3] * 3)
    five = Mixture(temperature=5.0).shares((100_000, 1000))
    assert five[0] / five[1] == pytest.approx(100 ** (1 / 5))
    assert Mixture(weights=(1e9, 1.0, 1.0)).reads(SIZES).tolist()[1:] == [1, 1]
    with pytest.raises(RecipeError, match=r"data.train\[1\] has 7 pairs"):
        Mixture(weights=(1.0, 1.0)).reads((100_000, 7))


@pytest.mark.parametrize(
    ("weights", "temperature", "message"),
    [
        ((1.0, None), None, "1 of 2 corpora of data.train have a weight"),
        ((1.0, 2.0), 5.0, "mixture_temperature is set, and the corpora"),
        ((None, None), 0.0, "mixture_temperature = 0.0 is not above 0"),
        ((1.0, -2.0), None, "weight = -2.0 reads no pair"),
    ],
)
def test_weights_that_cannot_be_meant_are_refused(weights, temperature, message):
    with pytest.raises(RecipeError, match=message):
        Mixture.of(
            [MixedCorpusSettings(source="a", target="b", weight=each) for each in weights], temperature
        )


@pytest.mark.parametrize("wrong", [float("inf"), float("nan"), True, "3"])
def test_python_refuses_the_weights_and_temperatures_that_a_recipe_refuses(monkeypatch, wrong):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(RecipeError, match="weight must be a"):
        MixedCorpusSettings(source="a", target="b", weight=wrong)
    with pytest.raises(RecipeError, match="temperature must be a"):
        Mixture.of([MixedCorpusSettings(source="a", target="b")] * 2, wrong)
    assert MixedCorpusSettings(source="a", target="b", weight=3).weight == 3.0
