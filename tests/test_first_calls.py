"""Each test checks types and shapes again, however often the tests before it called a function."""

import jaxtyping
import pytest

from regard.layers.masks import causal_mask
from tests.first_calls import FIRST


@pytest.mark.parametrize("turn", [1, 2])
def test_the_first_calls_of_each_test_are_checked(turn):
    with pytest.raises(jaxtyping.TypeCheckError, match="parameter 'tgt_len'"):
        causal_mask("three")
    for _ in range(FIRST + 5):
        causal_mask(3)
