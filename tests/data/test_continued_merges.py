"""Continued byte-pair encoding: the merges of a plain loop, after those of a tokeniser that is there."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from regard.data.continued_merges import continued_merges

words = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", "ab", "c"]), min_size=1, max_size=8).map(tuple),
    st.integers(1, 9),
    min_size=1,
)


def plain_merges(words, size, known, may_merge):
    """All pairs are counted again before each merge."""
    merges, made = [], set()
    while len(made) < size:
        pairs = Counter()
        for word, count in words.items():
            for pair in pairwise(word):
                if may_merge(*pair):
                    pairs[pair] += count
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < 2:
            break
        merges.append(best)
        made |= {"".join(best)} - known
        merged = Counter()
        for word, count in words.items():
            parts, place = [], 0
            while place < len(word):
                step = 2 if word[place : place + 2] == best else 1
                parts.append("".join(word[place : place + step]))
                place += step
            merged[tuple(parts)] += count
        words = merged
    return merges


@given(words=words, size=st.integers(0, 12))
def test_the_merges_are_those_of_a_plain_loop(words, size):
    known = {"a", "b", "ab", "c", "abc"}
    anything = lambda left, right: True  # noqa: E731
    with_c = lambda left, right: "c" in left + right  # noqa: E731
    for may_merge in (anything, with_c):
        found = continued_merges(words, size, known=known, may_merge=may_merge)
        assert found == plain_merges(words, size, known, may_merge)


def test_a_pair_that_occurs_once_is_not_merged():
    assert continued_merges({("a", "b"): 1}, 5, known=(), may_merge=lambda left, right: True) == []
