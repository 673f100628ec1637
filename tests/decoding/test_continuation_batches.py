"""Prompts are put into batches of a limited number of tokens, in groups that are prefilled together."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from regard.decoding.continuation import _batches, prompts_of

LENGTHS = st.lists(st.integers(1, 70), max_size=12)


@given(LENGTHS, st.integers(0, 20), st.integers(1, 300), st.booleans(), st.booleans())
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
