"""Prompts are put into batches of a limited number of tokens, in groups that are prefilled together."""

import itertools
from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.decoding.batches import LENGTH_MULTIPLE
from regard.decoding.continuation import ContinuationSettings, _batches, continue_all, prompts_of
from regard.decoding.rules import BannedTokens, LengthLimits, MinimumLength
from regard.decoding.sampling import Sampling
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig

LENGTHS = st.lists(st.integers(1, 70), max_size=12)


@given(LENGTHS, st.integers(0, 20), st.integers(1, 300), st.booleans(), st.booleans())
@example([10] * 7, 2, 36, False, True)
@example([10] * 7, 2, 36, False, False)
@example([10, 10, 20, 20], 2, 70, True, False)
def test_a_batch_is_within_its_budget_or_a_single_prompt_and_is_full(lengths, new, most, join, pads):
    prompts = prompts_of([[5] * length for length in lengths], begin_id=None)
    batches = list(_batches(prompts, new, most, join=join, pads=pads))
    assert sorted(itertools.chain(*itertools.chain(*batches))) == list(range(len(lengths)))

    def tokens(places):
        each = [lengths[place] + new for place in places]
        return len(each) * max(each) if pads else sum(each)

    together = [[*itertools.chain(*groups)] for groups in batches]
    for groups, batch in zip(batches, together, strict=True):
        reads = [{prompts[place].read for place in group} for group in groups]
        assert all(len(read) == 1 for read in reads), "a group is prefilled at once"
        assert len({*itertools.chain(*reads)}) == len(groups)
        assert join or len(groups) == 1
        assert len(batch) == 1 or tokens(batch) <= most
    for batch, after in itertools.pairwise(together):
        other = prompts[after[0]].read != prompts[batch[0]].read
        assert tokens([*batch, after[0]]) > most or (other and not join), "there was room for one more"


@pytest.mark.parametrize("begin_id", [2, None])
def test_as_much_of_a_prompt_is_prefilled_as_leaves_its_last_token(begin_id):
    for length in range(1, 40):
        [prompt] = prompts_of([[5] * length], begin_id=begin_id)
        assert prompt.read % LENGTH_MULTIPLE == 0
        assert 0 <= len(prompt.context) - 1 - prompt.read < LENGTH_MULTIPLE


@dataclass(frozen=True, kw_only=True)
class Counting(Sampling):
    """Counts the prompts of each batch."""

    counts: list

    def __call__(self, stepper, requests):
        self.counts.append(len(requests))
        return super().__call__(stepper, requests)


def model():
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_layers": 1}
    return build_model(DecoderOnlyConfig(vocab_size=24, positions="rotary", **sizes), seed=1)


@pytest.mark.parametrize("samples", [1, 2])
def test_each_sample_of_a_prompt_counts_in_a_batch(samples):
    limits = ContinuationSettings().strategy().limits
    search = Counting(counts=[], n_best=samples, limits=limits, cut=True)
    prompts = prompts_of([[5, 6, 7]] * 4, begin_id=None)
    continue_all(search, model(), prompts, max_new_tokens=5, batch_tokens=4 * 8)
    assert search.counts == [4 // samples] * samples


def test_a_prompt_is_no_source_and_counts_for_the_limits_of_a_search():
    search = ContinuationSettings(temperature=0.0, may_end=False).strategy()
    search = replace(search, limits=LengthLimits(ratio=5.0, offset=7))
    [[found]] = continue_all(search, model(), prompts_of([[5, 6]], begin_id=2), max_new_tokens=20)
    assert len(found.ids) == 7 - 2


@pytest.mark.parametrize(
    ("given", "least"), [({}, ()), ({"min_new_tokens": 4}, (MinimumLength(length=4, eos_id=3),))]
)
def test_a_text_has_a_least_length_only_where_one_is_set(given, least):
    assert ContinuationSettings(**given).strategy().rules == (BannedTokens(ids=(0, 1, 2)), *least)
