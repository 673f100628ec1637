"""Hypotheses follow their parents through any choice of survivors, and few rows move for it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.rows import MOST_PAUSE, SPARE, HypothesisRows
from regard.fast.native.search import StepsTaken


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


def test_there_is_room_for_16_tokens_and_for_twice_as_many_once_they_fill_it():
    rows, _ = of(2)
    room = []
    for _ in range(100):
        rows.append(np.arange(2), np.array([4, 5]), np.zeros(2))
        room.append(rows._ids.shape[1])
        assert rows._token_log_probs.shape == rows._ids.shape
    assert room == [16] * 16 + [32] * 16 + [64] * 32 + [128] * 36
    assert rows.ids.tolist() == [[4] * 100, [5] * 100]


def test_rows_that_join_have_the_tokens_that_they_begin_with_and_leave():
    rows, cache = of(1)
    rows.append(np.array([0]), np.array([5]), np.array([-0.5]))
    cache.held += [1, 2]
    rows.join(np.array([1, 2]), [[6] * 20, []])
    assert [rows.ids_of(row) for row in range(3)] == [[5], [6] * 20, []]
    assert (rows.length, rows.last(2).tolist()) == (20, [5, 6, 2])
    rows.append(np.arange(3), np.array([7, 8, 9]), np.array([-1.0, -2.0, -3.0]))
    assert [rows.ids_of(row) for row in range(3)] == [[5, 7], [*[6] * 20, 8], [9]]
    assert rows.log_prob.tolist() == [-1.5, -2.0, -3.0]
    assert rows.log_probs_of(1) == [*[0.0] * 20, -2.0]
    rows.select(np.array([2]), np.array([0]))
    assert (rows.length, rows.ids_of(0), cache.held) == (1, [9], [2])


def test_the_tokens_of_a_row_come_with_what_is_recorded_of_them():
    rows, _ = of(1)
    rows.append(np.array([0]), np.array([5]), np.array([-0.5]))
    rows.append(np.array([0]), np.array([6]), np.array([-1.0]))
    assert rows.taken(0, 0) == [(5, -0.5, ()), (6, -1.0, ())]
    rows.record_alternatives(1)
    rows.alternatives.rank(torch.tensor([[-3.0, -2.0]]))
    rows.append(np.array([0]), np.array([7]), np.array([-3.0]))
    assert rows.taken(0, 1) == [(6, -1.0, ()), (7, -3.0, ((1, -2.0),))]


def asked_after(rows, steps):
    """How many steps later the stepper is asked for several again, after it took so many."""
    number, share = (torch.zeros(1, steps, dtype=kind) for kind in (torch.int64, torch.float64))
    row, log_probs = torch.zeros(1, dtype=torch.int64), torch.zeros(1, dtype=torch.float64)
    candidates = torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1)
    rows.add_steps(
        StepsTaken(
            origins=row, ranks=row, log_probs=log_probs, tokens=number, gains=share, candidates=candidates,
            ended=[],
        )
    )  # fmt: skip
    return next((later for later in range(1, 99) if rows.may_take_steps()), None)


def test_a_stepper_that_took_no_steps_is_asked_less_and_less_often_until_it_takes_some():
    rows, _ = of(1)
    assert [asked_after(rows, 0) for _ in range(4)] == [1, 3, MOST_PAUSE, MOST_PAUSE]
    assert [asked_after(rows, steps) for steps in (1, 0)] == [1, 1]
