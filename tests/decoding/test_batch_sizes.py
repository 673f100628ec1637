"""How sources are divided into batches: by their padded lengths, alone, and for several processes."""

import sys
from types import SimpleNamespace

import jaxtyping
import pytest
import torch

from regard.decoding import batches
from regard.decoding.batches import (
    BATCHES_PER_WORKER,
    LENGTH_MULTIPLE,
    MIN_MULTIPLICATIONS,
    decode_all,
    deterministic,
    max_positions,
    min_source_length,
    padded,
    padded_length,
    reads_without_padding,
    refuse_long,
)
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.search import GreedySearch
from regard.decoding.speculative import PromptLookup, SpeculativeDecoding
from regard.errors import DataError
from tests.decoding.small_models import translator


@pytest.fixture(autouse=True)
def _without_checks_of_types():
    """Parts of models stand for models here."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class Pool:
    """Answers each source with its index, and keeps the batches."""

    def __init__(self, size):
        self.size, self.jobs = size, []

    def map(self, jobs, finished=None):
        self.jobs = list(jobs)
        for number in range(len(jobs)):
            if finished:
                finished(number)
        return [
            [
                [Hypothesis(ids=[each.index], log_prob=0.0, score=0.0, token_log_probs=[0.0])]
                for each in job.requests
            ]
            for job in jobs
        ]


@pytest.fixture(params=[True, False], ids=["padded", "not padded"])
def pads(request, monkeypatch):
    """True if the model computes what is padded, too."""
    monkeypatch.setattr(batches, "reads_without_padding", lambda model: not request.param)
    return request.param


def decoded(lengths, *, size=1, strategy=None, **more):
    """The lengths of the sources of each batch."""
    pool = Pool(size)
    sources = [[5] * length for length in lengths]
    found = decode_all(strategy or GreedySearch(), translator(), sources, pool=pool, **more)
    first = more.get("first_index", 0)
    assert [each.ids for [each] in found] == [[number] for number in range(first, first + len(sources))]
    return [[request.src_len for request in job.requests] for job in pool.jobs]


def test_a_batch_has_as_many_tokens_as_it_may_with_ends_and_padding(pads):
    each = 16 if pads else 12
    assert each == padded_length(12, 1, 99) or not pads
    sixteen = [11] * 16  # 12 tokens with the end, a head of 8 needs 50 keys: 64 where it is padded
    width = 64 if pads else 12
    for tokens, rows in ((4 * width, 4), (4 * width - 1, 3), (width, 1), (1, 1)):
        found = decoded(sixteen, size=1, batch_tokens=tokens)
        assert max(map(len, found)) == rows
        assert sum(map(len, found)) == 16


def test_several_processes_get_four_batches_each(pads):
    assert [len(batch) for batch in decoded([11] * 72, size=3)] == [6] * (3 * BATCHES_PER_WORKER)


@pytest.mark.parametrize("lengths", [[3, 9, 1], [3, 9]])
def test_the_longest_as_it_is_read_come_first_and_each_keeps_its_number(pads, lengths):
    found = decoded(lengths, size=1, batch_tokens=10**6, first_index=7)
    longest_first = sorted(lengths, reverse=True)
    assert [length for batch in found for length in batch] == (lengths if pads else longest_first)


def test_a_search_for_one_request_gets_one_at_a_time(pads):
    search = SpeculativeDecoding.of(GreedySearch(), PromptLookup(), 2)
    assert decoded([5, 4, 0, 0], strategy=search) == [[5], [4], [0], [0]]


def test_finished_sources_are_reported_by_their_places(pads):
    reported = []
    decoded([3, 9, 1], batch_tokens=1, decoded=reported.append)
    assert reported == ([[0], [1], [2]] if pads else [[1], [0], [2]])


def test_a_source_is_padded_to_a_multiple_that_the_model_still_has():
    assert [padded_length(length, 1, 99) for length in (1, 16, 17, 32)] == [16, 16, 32, 32]
    assert padded_length(3, 33, 99) == 48
    assert padded_length(3, 33, 40) == 40
    assert padded_length(41, 1, 40) == 40
    ids, lengths = padded([[5, 6], [7]], 9, most=3)
    assert (ids.tolist(), lengths.tolist()) == ([[5, 6, 9], [7, 9, 9]], [2, 1])
    assert padded([[5]], 9)[0].shape == (1, LENGTH_MULTIPLE)


def test_a_narrow_head_needs_more_keys():
    models = [SimpleNamespace(d_head=width) for width in (64, 8, 16)]
    assert min_source_length(models) == 50
    assert min_source_length(models[:1]) == 7
    for width in (5, 8, 64, 400, 401):
        least = min_source_length([SimpleNamespace(d_head=width)])
        assert least * width >= MIN_MULTIPLICATIONS > (least - 1) * width


def test_models_together_have_the_positions_of_the_least():
    models = [SimpleNamespace(max_length=length) for length in (None, 30, 20)]
    assert max_positions(models) == 20
    assert max_positions(models[:1]) == sys.maxsize


def test_a_request_leaves_a_position_for_its_end():
    fitting = [Request(src_len=5, prefix=(4,) * 5), Request(src_len=0)]
    refuse_long(fitting, 6)
    for long in (Request(src_len=6, index=3), Request(src_len=1, prefix=(4,) * 6, index=3)):
        with pytest.raises(DataError, match=rf"sentence 4 has {long.src_len} tokens .* only 6 positions"):
            refuse_long([*fitting, long], 6)


@pytest.mark.parametrize(
    ("step", "without"),
    [(None, False), (SimpleNamespace(start=None), False), (SimpleNamespace(start=print), True)],
)
def test_only_a_fast_encoder_reads_without_padding(monkeypatch, step, without):
    monkeypatch.setattr(batches, "fast_step", lambda model: step)
    assert reads_without_padding(translator()) is without


def test_models_are_in_evaluation_for_the_time_even_if_it_fails():
    trained, evaluated = torch.nn.Dropout(), torch.nn.Dropout().eval()

    def fail():
        with deterministic([trained, evaluated]):
            assert not trained.training
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (trained.training, evaluated.training) == (True, False)
