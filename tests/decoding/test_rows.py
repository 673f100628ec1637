"""Hypotheses follow their parents through any choice of survivors, and few rows move for it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.rows import SPARE, HypothesisRows


class Cache:
    """A stepper whose rows remember what they are copies of."""

    def __init__(self, sentences, multiple):
        self.multiple, self.held, self.moves = multiple, list(range(sentences)), []

    def start(self, src_ids, src_lengths): ...

    def step(self, ids):
        return torch.zeros(len(ids), 5)

    def select(self, rows):
        self.moves.append(rows.tolist())
        self.held = [self.held[row] for row in rows.tolist()]


@given(st.integers(1, 4), st.sampled_from([1, 2, 8]), st.data())
def test_each_hypothesis_has_the_tokens_and_the_cache_of_its_parent(sentences, multiple, data):
    cache = Cache(sentences, multiple)
    rows = HypothesisRows(cache, sentences)
    texts = {row: [] for row in rows.live().tolist()}
    for token in range(6):
        live = rows.live().tolist()
        parents = sorted(data.draw(st.lists(st.sampled_from(live), max_size=6))) if live else []
        before = {row: (int(rows.sentence[row]), texts[row]) for row in live}
        slots = rows.select(np.array(parents, np.int64), np.arange(len(parents)))
        assert len(rows.sentence) % multiple == 0
        assert sorted(slots.tolist()) == rows.live().tolist(), "each has a row of its own"
        texts = {}
        for number, (slot, parent) in enumerate(zip(slots.tolist(), parents, strict=True)):
            sentence, ids = before[parent]
            assert (rows.sentence[slot], rows.rank[slot]) == (sentence, number)
            assert rows.ids[slot].tolist() == ids
            assert cache.held[slot] == sentence
            texts[slot] = [*ids, 10 * token + number]
        values = -np.arange(1.0, len(parents) + 1)
        rows.append(slots, np.array([texts[slot][-1] for slot in slots], np.int64), values)
        for slot, value in zip(slots.tolist(), values, strict=True):
            assert rows.ids[slot].tolist() == texts[slot]
            assert rows.token_log_probs[slot, -1] == value
            assert rows.log_prob[slot] == pytest.approx(rows.token_log_probs[slot].sum())


def of(sentences, multiple=1):
    cache = Cache(sentences, multiple)
    rows = HypothesisRows(cache, sentences)
    cache.moves.clear()
    return rows, cache


def test_where_each_parent_has_one_child_nothing_moves():
    rows, cache = of(8)
    for _ in range(3):
        assert rows.select(np.arange(8), np.zeros(8, np.int64)).tolist() == [*range(8)]
    assert cache.moves == []


@pytest.mark.parametrize(("count", "ended"), [(16, 1), (8, 1), (32, 3)])
def test_where_a_few_hypotheses_end_their_rows_are_free_and_nothing_moves(count, ended):
    rows, cache = of(count, 2)
    some = np.arange(ended, count)
    assert rows.select(some, np.zeros(len(some), np.int64)).tolist() == some.tolist()
    assert rows.live().tolist() == some.tolist()
    assert cache.moves == []


def test_of_several_children_the_first_stays_and_the_others_take_free_rows():
    rows, cache = of(8)
    parents = np.array([0, 0, 1, 2, 4, 5, 6, 7])
    slots = rows.select(parents, np.zeros(8, np.int64))
    assert slots.tolist() == [0, 3, 1, 2, 4, 5, 6, 7]
    assert cache.moves == [[0, 1, 2, 0, 4, 5, 6, 7]], "one row moves"


def test_a_second_child_takes_a_free_row_of_its_own_sentence_if_there_is_one():
    """Its source need not move then."""
    rows, cache = of(4)
    rows.select(np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.arange(8))
    source = [cache.held[row] for row in range(8)]
    live = rows.live()
    first, second = (live[rows.sentence[live] == sentence] for sentence in (0, 1))
    others = [row for row in live.tolist() if rows.sentence[row] > 1]
    parents = np.array(sorted([second[0], second[0], first[1], first[1], *others]))
    rows.select(parents, np.arange(8))
    assert cache.held == source, "each row holds the source that it held"


@pytest.mark.parametrize(("live", "count"), [(15, 16), (14, 14), (8, 8), (1, 2)])
def test_rows_are_given_back_once_an_eighth_is_free(live, count):
    rows, _ = of(16, 2)
    rows.select(np.arange(live), np.zeros(live, np.int64))
    assert len(rows.sentence) == count
    assert (rows.sentence != SPARE).sum() == live


@pytest.mark.parametrize("live", [15, 8, 1])
def test_a_row_is_given_back_at_once_where_any_number_of_rows_has_the_same_bits(live):
    rows, _ = of(16)
    rows.select(np.arange(live), np.zeros(live, np.int64))
    assert len(rows.sentence) == live


@pytest.mark.parametrize(("multiple", "count"), [(1, 5), (4, 8), (8, 8), (16, 16)])
def test_there_are_as_many_rows_as_the_stepper_has_in_a_step(multiple, count):
    rows, _ = of(5, multiple)
    assert len(rows.sentence) == count
    assert rows.live().tolist() == [0, 1, 2, 3, 4]


def test_without_hypotheses_there_are_no_rows():
    rows, cache = of(3)
    rows.select(np.array([], np.int64), np.array([], np.int64))
    assert len(rows.sentence) == len(rows.live()) == 0
    assert cache.moves == []


def test_a_score_may_differ_from_the_log_probability():
    rows, _ = of(2)
    rows.append(np.array([0, 1]), np.array([7, 8]), np.array([-1.0, -2.0]), np.array([-1.5, -2.5]))
    rows.append(np.array([1]), np.array([9]), np.array([-0.25]))
    assert rows.token_log_probs.tolist() == [[-1.0, 0.0], [-2.0, -0.25]]
    assert rows.log_prob.tolist() == [-1.5, -2.75]


def test_there_is_room_for_at_most_twice_as_many_tokens_as_there_are():
    rows, _ = of(2)
    for length in range(1, 100):
        rows.append(np.arange(2), np.array([4, 5]), np.zeros(2))
        assert length <= rows._ids.shape[1] <= max(16, 2 * length)
        assert rows._token_log_probs.shape == rows._ids.shape
    assert rows.ids.tolist() == [[4] * 99, [5] * 99]
