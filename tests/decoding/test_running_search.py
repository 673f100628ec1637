"""A search as a state: what leaves it costs nothing more."""

import numpy as np
import pytest

from regard.decoding.hypothesis import Request
from regard.decoding.rules import BannedTokens, LengthLimits
from regard.decoding.running_search import running
from regard.decoding.search import BeamSearch, GreedySearch

ENDLESS = {"limits": LengthLimits(ratio=0.0, offset=60), "rules": (BannedTokens(ids=(0, 2, 3)),)}


@pytest.mark.parametrize(
    ("search", "rows"), [(GreedySearch(**ENDLESS), 1), (BeamSearch(size=2, **ENDLESS), 2)]
)
def test_the_step_after_requests_leave_is_without_their_rows(make_table, search, rows):
    table = make_table()
    table.multiple = 1
    state = running(search, table.read([[4], [5], [6]]), [Request(src_len=1)] * 3)
    state.step()
    state.select(np.array([2]))
    state.step()
    assert table.sizes == [3, rows]
