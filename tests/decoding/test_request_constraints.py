"""What the requests of a batch force, compared with each request alone."""

import numpy as np
import pytest

from regard.decoding.hypothesis import Request
from regard.decoding.request_constraints import FREE, RequestConstraints
from regard.decoding.rows import SPARE, HypothesisRows
from regard.decoding.rules import SOURCE_PADDING, LengthLimits

EOS = 3
LIMITS = LengthLimits(ratio=1.0, offset=2, least=0, most=7)
REQUESTS = [
    Request(src_len=1, source=(5,)),
    Request(src_len=3, prefix=(8, 9), uncounted=1, source=(5, 6, 7)),
    Request(src_len=3, most=4),
    Request(src_len=0, prefix=(4, 5, 6, 7), uncounted=4, source=()),
    Request(src_len=20, prefix=(8,)),
]


class Rows(HypothesisRows):
    """Rows of these requests, with so many tokens each."""

    def __init__(self, sentences, lengths):
        self.sentence, self.lengths = np.array(sentences), np.array(lengths)
        self.length = int(self.lengths.max())


def forced_alone(request, length):
    """The token that a request forces after so many, by the definition."""
    if length < len(request.prefix):
        return request.prefix[length]
    longest = max(min(LIMITS.longest(request.src_len), request.most), len(request.prefix))
    return EOS if length >= longest else FREE


def made(requests=REQUESTS):
    return RequestConstraints(requests, LIMITS, EOS)


@pytest.mark.parametrize("length", range(9))
def test_each_row_has_the_forced_token_of_its_own_request(length):
    constraints = made()
    rows = Rows([4, 3, 2, 1, 0, 0, SPARE], [length] * 6 + [0])
    expected = [forced_alone(REQUESTS[place], length) for place in (4, 3, 2, 1, 0, 0)]
    assert constraints.forced(rows).tolist() == [*expected, FREE]
    alone = Rows([4, 3, 2, 1, 0, 0], [length] * 6)
    assert constraints.is_free(alone) is (length >= 4 and all(each == FREE for each in expected))
    for place, request in enumerate(REQUESTS):
        one, row = made([request]), Rows([0], [length])
        token = forced_alone(request, length)
        assert one.forced(row).tolist() == [token]
        assert one.is_free(row) is (token == FREE)
        assert one.in_prompt(row).tolist() == [length < request.uncounted]
        assert constraints.in_prompt(Rows([place], [length])).tolist() == [length < request.uncounted]


def test_rows_of_different_lengths_have_the_tokens_of_their_own():
    rows = Rows([0, 1, 2, 3, 4], [3, 1, 1, 3, 0])
    assert made().forced(rows).tolist() == [EOS, 9, FREE, 7, 8]
    assert not made().is_free(rows)


@pytest.mark.parametrize("cut", range(1, 5))
def test_requests_that_join_and_leave_have_what_they_have_alone(cut):
    constraints = made(REQUESTS[:cut])
    constraints.join(made(REQUESTS[cut:]))
    whole = made()
    for name in ("prefix", "prefix_lengths", "uncounted", "longest", "sources"):
        assert np.array_equal(getattr(constraints, name), getattr(whole, name)), name
    assert (constraints.soonest, constraints.requests) == (3, REQUESTS)
    for kept in ([4, 0], [2], [3, 1, 2], []):
        some = made()
        some.select(np.array(kept, np.int64))
        assert some.requests == [REQUESTS[place] for place in kept]
        if not kept:
            continue
        other = made([REQUESTS[place] for place in kept])
        for name in ("prefix", "prefix_lengths", "uncounted", "longest", "sources"):
            assert np.array_equal(getattr(some, name), getattr(other, name)), name
        assert some.soonest == other.soonest


def test_sources_are_padded_and_what_is_unknown_is_empty():
    assert made().sources.tolist() == [
        [5, SOURCE_PADDING, SOURCE_PADDING],
        [5, 6, 7],
        *[[SOURCE_PADDING] * 3] * 3,
    ]
