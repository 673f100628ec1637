"""What is forbidden is never said; what is not is left as it was."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from regard.decoding.hypothesis import Power, Request
from regard.decoding.rules import (
    NO_TOKEN,
    SOURCE_PADDING,
    BannedPhrases,
    BannedTokens,
    ForcedFirstToken,
    GeneratedTokens,
    LengthLimits,
    MinimumLength,
    NoRepeatNGrams,
    NoRepeatSourceNGrams,
    ends_in,
)
from regard.decoding.search import BeamSearch, GreedySearch


def n_grams(ids, size: int) -> list[tuple[int, ...]]:
    return [tuple(ids[place : place + size]) for place in range(len(ids) - size + 1)]


@given(
    st.integers(1, 4),
    st.integers(0, 9).flatmap(
        lambda length: st.lists(st.lists(st.integers(0, 3), min_size=length, max_size=length), min_size=1)
    ),
)
def test_a_token_is_forbidden_exactly_when_it_would_repeat_an_n_gram(size, histories):
    log_probs = torch.zeros(len(histories), 4)
    ids = torch.tensor(histories, dtype=torch.int64).reshape(len(histories), -1)
    NoRepeatNGrams(size=size)(log_probs, GeneratedTokens(ids))
    for row, history in zip(log_probs, histories, strict=True):
        for token in range(4):
            longer = n_grams([*history, token], size)
            repeats = bool(longer) and longer[-1] in longer[:-1]
            assert row[token] == (-torch.inf if repeats else 0)


def test_the_first_n_gram_of_all_may_be_one_to_forbid():
    """Of the source, say: then the tokens so far are just those before its last."""
    log_probs, source = torch.zeros(1, 10), np.array([[4, 5, 6, 7]])
    NoRepeatSourceNGrams(size=3)(log_probs, GeneratedTokens(torch.tensor([[5, 6]]), sources=lambda: source))
    assert log_probs.isinf().nonzero().tolist() == [[0, 7]]


@given(
    st.integers(1, 3), st.lists(st.lists(st.integers(0, 3), min_size=7, max_size=7), min_size=1, max_size=4)
)
@example(3, [[0, 1, 2, 3, 0, 2, 1]])
def test_a_rule_names_each_token_of_a_row_once_and_only_as_many_as_a_row_has(size, histories):
    generated = GeneratedTokens(torch.tensor(histories))
    rules = (
        NoRepeatNGrams(size=size),
        BannedPhrases(phrases=((1,), (0, 1), (2, 3), (3, 2), (1, 1, 0))),
    )
    for rule in rules:
        log_probs, banned = torch.zeros(len(histories), 4), rule.banned(generated)
        rule(log_probs, generated)
        named = [[token for token in row if token != NO_TOKEN] for row in banned.tolist()]
        assert [sorted(row) for row in named] == [row.isinf().nonzero()[:, 0].tolist() for row in log_probs]
        assert banned.size(1) == max(map(len, named))


@pytest.mark.parametrize("ids", [[], [5]])
def test_before_there_are_tokens_enough_no_n_gram_is_completed(ids):
    log_probs, source = torch.zeros(1, 10), np.array([[5, 5, 6]])
    generated = GeneratedTokens(torch.tensor([ids], dtype=torch.int64), sources=lambda: source)
    NoRepeatSourceNGrams(size=3)(log_probs, generated)
    assert not log_probs.isinf().any()


def test_no_phrases_name_no_tokens():
    assert BannedPhrases(phrases=()).banned(GeneratedTokens(torch.zeros(2, 3).long())).shape == (2, 0)


def test_a_forced_first_token_leaves_no_other_and_no_later_one_is_forced():
    scores = torch.randn(2, 6, generator=torch.Generator().manual_seed(1))
    for length in range(3):
        log_probs = scores.clone()
        ForcedFirstToken(token=4)(log_probs, GeneratedTokens(torch.zeros(2, length).long()))
        forced = [-torch.inf] * 4 + [0.0, -torch.inf]
        assert log_probs.tolist() == (scores.tolist() if length else [forced] * 2)


def test_banned_tokens_and_an_early_end_are_forbidden():
    log_probs = torch.zeros(2, 6)
    BannedTokens(ids=(0, 2))(log_probs, GeneratedTokens(torch.zeros(2, 1, dtype=torch.int64)))
    assert log_probs.isinf().tolist() == [[True, False, True, False, False, False]] * 2
    for prefix, length in itertools.product(range(3), range(4)):
        log_probs, ids = torch.zeros(2, 6), torch.zeros(2, prefix + length, dtype=torch.int64)
        MinimumLength(length=2, eos_id=3)(log_probs, GeneratedTokens(ids, prefix_lengths=np.array([prefix])))
        assert log_probs.isinf().any(dim=0).tolist() == [False] * 3 + [length < 2] + [False] * 2


def test_the_greatest_length_grows_with_the_source_within_its_bounds():
    limits = LengthLimits(ratio=1.5, offset=2, least=4, most=10)
    assert [limits.longest(length) for length in (0, 1, 3, 5, 6, 100)] == [4, 4, 7, 10, 10, 10]
    assert LengthLimits(most=1).longest(100) == 1


@pytest.mark.parametrize("search", [GreedySearch, BeamSearch])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_search_repeats_an_n_gram(make_table, search, size):
    rules = (BannedTokens(ids=(0, 2)), NoRepeatNGrams(size=size), MinimumLength(length=12, eos_id=3))
    limits = LengthLimits(ratio=0.0, offset=12)
    found = search(rules=rules, limits=limits)(make_table(vocab=8).read([[4], [5]]), [Request(src_len=1)] * 2)
    for hypotheses in found:
        said = n_grams(hypotheses[0].ids, size)
        assert len(said) == len(set(said))
        assert len(hypotheses[0].ids) >= (5 if size == 1 else 12)  # of five words, each once


def test_a_wide_beam_finds_the_best_without_repetition(make_table, exhaustive_search):
    table = make_table(vocab=6)
    rules = (BannedTokens(ids=(0, 2)), NoRepeatNGrams(size=1))
    search = BeamSearch(size=81, n_best=5, rules=rules, limits=LengthLimits(ratio=0.0, offset=4))
    found = search(table.read([[4]]), [Request(src_len=1)])[0]
    best = exhaustive_search(
        table, [4], penalty=Power(alpha=0.0), n_best=5, lengths=range(5),
        allowed=lambda ids: len(set(ids)) == len(ids),
    )  # fmt: skip
    assert [each.ids for each in found] == [each.ids for each in best]


def test_tokens_without_a_request_have_no_prompt_and_no_source():
    ids = torch.tensor([[4, 5], [6, 7]])
    tokens = GeneratedTokens(ids)
    assert (tokens.length, tokens.shift) == (2, None)
    assert tokens.prefix_lengths.tolist() == [0, 0]
    assert tokens.source.shape == (2, 0)


def test_each_row_has_the_prompt_and_the_source_of_its_request():
    sources = np.array([[4, 5], [6, SOURCE_PADDING]])
    rows = {"prefix_lengths": np.array([1, 2]), "sentence": np.array([1, 0, 1])}
    tokens = GeneratedTokens(torch.zeros(3, 4, dtype=torch.int64), sources=lambda: sources, **rows)
    assert tokens.prefix_lengths.tolist() == [2, 1, 2]
    assert tokens.source.tolist() == [[6, SOURCE_PADDING], [4, 5], [6, SOURCE_PADDING]]


def test_a_phrase_is_the_last_tokens_of_a_row():
    ids = torch.tensor([[4, 5, 6], [5, 6, 4], [6, 5, 6]])
    assert ends_in(ids, (5, 6)).tolist() == [True, False, True]
    assert ends_in(ids, (6, 5, 6)).tolist() == [False, False, True]
    assert ends_in(ids, ()).tolist() == [True] * 3
    assert ends_in(ids, (4, 4, 5, 6)).tolist() == [False] * 3
