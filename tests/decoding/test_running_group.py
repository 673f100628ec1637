"""A running batch: requests are cancelled, fail and are followed while they run; memory does not grow."""

import gc
import random
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from regard.decoding.batches import decode_all, min_source_length, padded
from regard.decoding.diverse import DiverseBeamSearch
from regard.decoding.hypothesis import Hypothesis, Request, Wu
from regard.decoding.rules import BannedTokens, LengthLimits
from regard.decoding.running_batch import RunningTranslations
from regard.decoding.running_group import Arrival, group_of
from regard.decoding.sampling import Sampling
from regard.decoding.search import BeamSearch, GreedySearch
from regard.decoding.step import ROW_MULTIPLE, EnsembleStepper, stepper_of
from regard.errors import ConfigError, DataError, RunError
from regard.fast.native import kernels
from tests.decoding.small_models import EXACT, sentences, translator

COMMON = {"limits": LengthLimits(ratio=0.5, offset=4, most=24), "rules": (BannedTokens(ids=(0, 2)),)}
SEARCHES = {
    "greedy": GreedySearch(**COMMON),
    "beam": BeamSearch(size=4, n_best=3, length_penalty=Wu(alpha=0.6), **COMMON),
    "samples": Sampling(seed=3, n_best=3, **COMMON),
}


ENDLESS = GreedySearch(limits=COMMON["limits"], rules=(BannedTokens(ids=(0, 2, 3)),))


def assert_same(found, expected):
    if EXACT:
        assert found == expected
    assert [len(each) for each in found] == [len(each) for each in expected]


@pytest.mark.parametrize("positions", ["rotary", "t5"])
def test_rows_leave_at_the_step_after_they_were_cancelled(positions):
    batch = RunningTranslations(SEARCHES["samples"], translator(positions=positions))
    tickets = batch.add(sentences(4, random.Random(1)))
    batch.step()
    assert batch.rows == 4 * 3
    batch.cancel(tickets[2])
    batch.step()
    assert batch.rows == 3 * 3
    for ticket in tickets:
        batch.cancel(ticket)
    assert batch.step() == []
    assert not batch
    assert (batch.rows, batch.tokens, batch.running, batch.waiting) == (0, 0, 0, 0)


def test_a_request_is_cancelled_before_it_is_read():
    batch = RunningTranslations(SEARCHES["greedy"], translator())
    first, second = batch.add([[5, 6], [7]])
    batch.cancel(first)
    assert batch.waiting == 1
    found = []
    while batch:
        found += batch.step()
    assert [ticket for ticket, _ in found] == [second]
    batch.cancel(second)  # it is done
    assert not batch


def test_a_search_that_nothing_joins_is_followed_and_its_requests_leave_one_by_one():
    model, prefixes = translator(), [(9, 8), (9,)]
    search = DiverseBeamSearch(size=4, n_best=2, groups=2, diversity=0.5, **COMMON)
    stepper = stepper_of([model])
    requests = [Request(src_len=2, prefix=prefix) for prefix in prefixes]
    ids, lengths = padded([[5, 6, 3], [7, 4, 3]], 0, least=min_source_length([model]))
    arrivals = [Arrival(ticket=7 + place, request=each, ids=()) for place, each in enumerate(requests)]
    with torch.no_grad():
        stepper.start(ids, lengths)
        group = group_of(search, stepper, arrivals)
        assert (group.num_rows, group.num_tokens, group.generated(8)) == (2, 0, [])
        for _ in range(3):
            assert group.step() == []
        assert group.generated(7) == [[], []] or all(len(each) == 1 for each in group.generated(7))
        assert len(group.generated(8)) > 1
        assert all(len(each) == 2 for each in group.generated(8)), "three tokens, one of the prefix"
        assert group.num_rows == len(group.generated(7)) + len(group.generated(8))
        assert group.num_tokens >= 3 * group.num_rows
        group.leave({7})
        finished = []
        while group.arrivals:
            finished += group.step()
    [(arrival, hypotheses)] = finished
    assert arrival is arrivals[1]
    assert all(each.ids[0] == 9 for each in hypotheses)


def started(search, sources, *, prefixes=None, model=None, **options):
    """A group of requests for these sources, and its stepper."""
    stepper = stepper_of([model or translator()])
    prefixes = prefixes or [()] * len(sources)
    requests = [
        Request(src_len=len(ids), source=tuple(ids), prefix=prefix)
        for ids, prefix in zip(sources, prefixes, strict=True)
    ]
    arrivals = [
        Arrival(ticket=7 + place, request=each, ids=(), **options) for place, each in enumerate(requests)
    ]
    with torch.no_grad():
        stepper.start(*padded([[*ids, 3] for ids in sources], 0, least=1))
        return group_of(search, stepper, arrivals), stepper


@pytest.mark.parametrize(
    "search",
    [SEARCHES["greedy"], SEARCHES["samples"], DiverseBeamSearch(size=4, groups=2, diversity=0.5, **COMMON)],
    ids=["greedy", "samples", "diverse"],
)
def test_what_is_taken_are_tokens_of_the_first_hypothesis_from_a_place_on(search):
    group, _ = started(search, [[5, 6], [7, 4, 9]], prefixes=[(9, 8), (9,)])
    assert group.taken(7, 0) == group.taken(8, 0) == []
    taken, finished, longest = {}, {}, 0
    with torch.no_grad():
        while group.arrivals:
            finished |= {each.ticket: hypotheses for each, hypotheses in group.step()}
            for ticket in (each.ticket for each in group.arrivals):
                generated = group.generated(ticket)
                taken[ticket] = group.taken(ticket, 0)
                assert [each.token for each in taken[ticket]] == (generated[0] if generated else [])
                assert group.taken(ticket, 2) == taken[ticket][2:]
                assert all(each.alternatives == () for each in taken[ticket])
                longest = max(longest, len(taken[ticket]))
    assert longest > 2
    if search is SEARCHES["greedy"]:
        for ticket, prefix in ((7, 2), (8, 1)):
            [answer] = finished[ticket]
            each = [each.log_prob for each in taken[ticket]]
            assert each == answer.token_log_probs[prefix : prefix + len(each)]


@dataclass(frozen=True, kw_only=True)
class OwnBeam(BeamSearch):
    """A beam search of another package."""


@pytest.mark.skipif(not kernels.available(), reason="no C compiler")
@pytest.mark.parametrize(
    ("search", "alone", "joins"),
    [(ENDLESS, False, True), (ENDLESS, True, False), (OwnBeam(**COMMON), False, False)],
    ids=["joins", "alone", "of another package"],
)
@torch.no_grad()
def test_rows_join_a_search_of_regard_unless_its_request_is_to_be_alone(search, alone, joins):
    model = translator()
    group, _ = started(search, [[5, 6]], model=model, alone=alone)
    other = stepper_of([model])
    other.start(torch.tensor([[7, 3]]), torch.tensor([2]))
    assert group.can_join(other) is joins
    if joins:
        assert group.step() == group.step() == []
        group.join(other, [Arrival(ticket=9, request=Request(src_len=1), ids=())])
        assert group.num_tokens == 2, "a fast step takes no memory for padding"
        assert group.step() == []
        assert group.num_tokens == 3 + 1


def test_spare_rows_of_a_plain_step_take_memory_too():
    group, stepper = started(ENDLESS, [[5, 6], [7]], model=translator(positions="t5"))
    assert not group.can_join(stepper), "without a fast step"
    found = [group.num_tokens]
    with torch.no_grad():
        for _ in range(3):
            assert group.step() == []
            found.append(group.num_tokens)
    assert found == [length * ROW_MULTIPLE for length in range(4)]


def test_tokens_are_known_as_they_come():
    batch = RunningTranslations(SEARCHES["greedy"], translator())
    tickets, last, found = batch.add(sentences(5, random.Random(2)), prefixes=[[9, 8]] * 5), {}, {}
    while batch:
        found |= dict(batch.step())
        for ticket in tickets:
            now = batch.generated(ticket)
            if ticket in found:
                [answer] = found[ticket]
                assert now == batch.taken(ticket, 0) == []
                assert last[ticket] == answer.ids[2 : 2 + len(last[ticket])]
            else:
                [now] = now
                assert last.get(ticket, []) == now[: len(last.get(ticket, []))]
                assert [each.token for each in batch.taken(ticket, 1)] == now[1:]
                last[ticket] = now
    assert max(map(len, last.values())) > 2


@pytest.mark.skipif(not kernels.available(), reason="no C compiler")
def test_few_arrivals_are_read_between_two_steps():
    """Others advance between two layers of a long one."""
    batch = RunningTranslations(SEARCHES["samples"], translator(num_encoder_layers=3), arrival_tokens=32)
    batch.add([[5] * 15, [6] * 15, [7] * 10, [8] * 20, [9] * 500, [4]])
    waiting, rows = [], []
    for _ in range(8):
        waiting.append(batch.waiting)
        batch.step()
        rows.append(batch.rows)
    assert waiting == [6, 4, 2, 2, 2, 2, 1, 0]  # after two of 32 tokens, a layer at each step
    assert rows[3] > 0


@pytest.mark.parametrize("search", ["greedy", "beam"])
def test_a_request_is_cancelled_while_it_is_read(search):
    model = translator(num_encoder_layers=3)
    batch = RunningTranslations(SEARCHES[search], model, arrival_tokens=32)
    sources = [[7] * 25, [9] * 500]
    first, second = batch.add(sources)
    found = batch.step()
    found += batch.step()
    batch.cancel(second)
    while batch:
        found += batch.step()
    assert found == [(first, decode_all(SEARCHES[search], model, sources[:1])[0])]


@dataclass(frozen=True, kw_only=True)
class Particular(GreedySearch):
    """Refuses sources of one token when it runs."""

    refused: ClassVar[str] = "one token is too short"

    def __call__(self, stepper, requests):
        if any(request.src_len == 1 for request in requests):
            raise ConfigError(self.refused)
        return super().__call__(stepper, requests)


def test_a_request_that_fails_does_not_fail_its_neighbours():
    model, search = translator(), Particular(**COMMON)
    sources = [[5, 6], [7], [8, 9], [4]]
    batch, found, refused = RunningTranslations(search, model), {}, []
    batch.add(sources)
    while batch:
        found |= dict(batch.step())
        refused += batch.refused()
    assert found == {place: decode_all(search, model, [sources[place]])[0] for place in (0, 2)}
    assert [(ticket, str(error)) for ticket, error in refused] == [(1, search.refused), (3, search.refused)]


@pytest.mark.parametrize("positions", ["rotary", "t5"])
def test_nan_fails_the_request_that_it_comes_from(positions):
    model = translator(positions=positions, tied="target")
    with torch.no_grad():
        model.encoder.input.embedding.weight[39] = torch.nan
    random_ = random.Random(3)
    sources = [[token for token in source if token != 39] for source in sentences(12, random_)]
    sources[4] = [5, 39, 6]
    batch, found, refused = RunningTranslations(SEARCHES["beam"], model), {}, []
    added = 0
    while added < 12 or batch:
        added += len(batch.add(sources[added : added + 2]))
        found |= dict(batch.step())
        refused += batch.refused()
    assert [ticket for ticket, _ in refused] == [4]
    assert isinstance(refused[0][1], RunError)
    assert_same(
        [found[place] for place in sorted(found)],
        [decode_all(SEARCHES["beam"], model, [sources[place]])[0] for place in range(12) if place != 4],
    )


def test_a_model_in_training_decodes_without_dropout():
    model = translator(dropout=0.3)
    expected = decode_all(SEARCHES["beam"], model, [[5, 6, 7]])
    batch = RunningTranslations(SEARCHES["beam"], model.train())
    assert batch.joins is kernels.available()
    [ticket], found = batch.add([[5, 6, 7]]), []
    while batch:
        found += batch.step()
    assert found == [(ticket, expected[0])]
    assert model.training


def test_a_source_that_is_too_long_is_refused_and_none_of_its_call_are_queued():
    batch = RunningTranslations(SEARCHES["greedy"], translator(positions="learned", max_positions=12))
    with pytest.raises(DataError, match="12 positions"):
        batch.add([[5], [6] * 30])
    assert not batch
    with pytest.raises(ConfigError, match="arrival_tokens is 0"):
        RunningTranslations(SEARCHES["greedy"], translator(), arrival_tokens=0)
    RunningTranslations(SEARCHES["greedy"], translator(), arrival_tokens=1)


def test_an_ensemble_has_a_model():
    for made in (EnsembleStepper, lambda models: RunningTranslations(SEARCHES["greedy"], models)):
        with pytest.raises(ConfigError, match="at least one model"):
            made([])


def test_weights_that_change_are_used_for_what_arrives_after():
    """What runs is finished with the weights that it began with."""
    model, search = translator(), SEARCHES["greedy"]
    sources = sentences(6, random.Random(6))
    before = decode_all(search, model, sources[:3])
    batch, found = RunningTranslations(search, model), {}
    batch.add(sources[:3])
    batch.step()
    with torch.no_grad():
        model.decoder.blocks[0].feed_forward.outer.weight += 0.5
    batch.add(sources[3:])
    while batch:
        found |= dict(batch.step())
    after = decode_all(search, model, sources[3:])
    if kernels.available():
        assert [found[place] for place in range(6)] == before + after
    else:
        assert [found[place] for place in range(3, 6)] == after


@pytest.mark.parametrize("name", [pytest.param("beam", marks=pytest.mark.nightly), "samples"])
def test_memory_does_not_grow_with_the_number_of_requests(name, request):
    """Over hundreds of joins and leaves, a few at a time, without a moment when none runs."""
    search, model, random_ = SEARCHES[name], translator(), random.Random(7)
    batch, done, alive = RunningTranslations(search, model), 0, []
    gc.collect()
    gc.freeze()  # only what is made from here on is collected and counted
    request.addfinalizer(gc.unfreeze)
    while done < 240:
        if batch.running + batch.waiting < 6:
            batch.add(sentences(3, random_, 12))
        done += len(batch.step())
        [group] = batch._groups
        assert len(group._running.requests) == batch.running <= 8
        assert group._running.rows._ids.shape[1] <= 32
        if kernels.available():
            cache = group._stepper.cache
            assert cache.size <= 8 * 4 * 64
            assert cache.table.size(1) <= 32
            assert len(cache.memory.layers[0][0]) <= 4 * 8 * 13
        if done // 60 >= len(alive):
            gc.collect()
            kinds = (Request, Arrival, Hypothesis, torch.Tensor)
            alive.append(sum(type(each) in kinds for each in gc.get_objects()))
    assert max(alive[1:]) <= max(alive[:2]) + 60


class Unreadable(RunningTranslations):
    """Fails when it reads a 9."""

    def _read(self, arrivals):
        if any(9 in each.ids for each in arrivals):
            raise RunError("a 9 cannot be read")
        return (yield from super()._read(arrivals))


def test_a_request_that_cannot_be_read_does_not_fail_those_that_arrived_with_it():
    model, search, sources = translator(), SEARCHES["greedy"], [[5, 6], [9], [7], [8, 9]]
    batch, found, refused = Unreadable(search, model), {}, []
    batch.add(sources)
    while batch:
        found |= dict(batch.step())
        refused += [(ticket, str(error)) for ticket, error in batch.refused()]
    assert refused == [(1, "a 9 cannot be read"), (3, "a 9 cannot be read")]
    assert_same([found[0], found[2]], [decode_all(search, model, [sources[place]])[0] for place in (0, 2)])


@dataclass(frozen=True, kw_only=True)
class Miscounting(GreedySearch):
    """Gives an answer more, or fewer, than there are requests."""

    more: int

    def __call__(self, stepper, requests):
        found = super().__call__(stepper, requests)
        return [*found, []] if self.more > 0 else found[:-1]


@pytest.mark.parametrize("more", [1, -1])
def test_a_search_with_another_number_of_answers_is_an_error_and_no_request_loses_its_own(more):
    batch = RunningTranslations(Miscounting(more=more, **COMMON), translator())
    batch.add([[5, 6], [7]])
    with pytest.raises(ValueError, match="argument 2 is"):
        batch.step()
