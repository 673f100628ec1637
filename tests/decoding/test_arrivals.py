"""Arrivals wait for others if many requests are running, and are counted with what memory grows with."""

import pytest

from regard.decoding.rules import BannedTokens, LengthLimits
from regard.decoding.running_batch import PATIENCE, RunningTranslations
from regard.decoding.search import GreedySearch
from tests.decoding.small_models import translator

EOS = 3
ENDLESS = GreedySearch(limits=LengthLimits(ratio=0.0, offset=60), rules=(BannedTokens(ids=(0, 2, EOS)),))


def running(count):
    batch = RunningTranslations(ENDLESS, translator())
    batch.add([[5, 6]] * count)
    batch.step()
    assert (batch.running, batch.waiting) == (count, 0)
    return batch


def steps_until_they_join(batch, count):
    batch.add([[7]] * count)
    for step in range(1, 3 * PATIENCE):
        batch.step()
        if not batch.waiting:
            return step
    return None


@pytest.mark.parametrize(
    ("count", "new", "steps"), [(16, 2, 1), (17, 2, PATIENCE), (8, 1, 1), (9, 1, PATIENCE)]
)
def test_an_eighth_of_those_that_run_joins_at_once_and_fewer_wait_for_others(count, new, steps):
    assert steps_until_they_join(running(count), new) == steps


def test_each_arrival_waits_unless_enough_others_come():
    batch = running(17)
    for _ in range(2):
        assert steps_until_they_join(batch, 1) == PATIENCE
    assert steps_until_they_join(batch, 3) == 1
    batch.add([[7]])
    batch.step()
    assert batch.waiting == 1
    assert steps_until_they_join(batch, 2) == 1, "with the one that waited they are enough"


def test_tokens_are_those_of_sources_with_their_ends_and_of_rows():
    batch = RunningTranslations(ENDLESS, translator())
    batch.add([[5, 6], [7]])
    found = [batch.tokens]
    for _ in range(3):
        batch.step()
        found.append(batch.tokens)
    assert found == [5, 7, 9, 11]
    batch.add([[4] * 20])
    assert batch.tokens == 11 + 21
