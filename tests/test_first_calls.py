"""Each test checks types and shapes again, however often the tests before it called a function."""

from dataclasses import dataclass

import jaxtyping
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from regard.layers.masks import causal_mask
from tests.first_calls import FIRST, begin_test, first_calls

checked = jaxtyping.jaxtyped(typechecker=first_calls)  # as the import hook writes it


@pytest.mark.parametrize("turn", [1, 2])
def test_the_first_calls_of_each_test_are_checked(turn):
    with pytest.raises(jaxtyping.TypeCheckError, match="parameter tgt_len='three'"):
        causal_mask("three")
    for _ in range(FIRST + 5):
        causal_mask(3)


@pytest.mark.parametrize("turn", [1, 2])
def test_functions_of_one_place_are_counted_together(turn):
    """Each call of the outer function defines another inner one."""

    def outer():
        @checked
        def inner(number: int) -> int:
            return number

        return inner

    for _ in range(FIRST):
        with pytest.raises(jaxtyping.TypeCheckError, match="parameter number='three'"):
            outer()("three")
    assert outer()("three") == "three"


def test_functions_of_one_name_and_other_annotations_have_checks_of_their_own():
    def outer(kind):
        @checked
        def inner(value: kind) -> kind:
            return value

        return inner

    assert outer(int)(3) == 3
    with pytest.raises(jaxtyping.TypeCheckError, match="parameter value=3"):
        outer(str)(3)


def test_results_and_shapes_are_checked():
    @checked
    def half(x: Float[Tensor, "batch width"]) -> Float[Tensor, " width"]:
        return x[:, 0]

    half(torch.ones(3, 3))
    with pytest.raises(jaxtyping.TypeCheckError, match="dimension width is 2 which does not"):
        half(torch.ones(2, 3))


def test_a_dataclass_is_checked_when_it_is_made():
    @checked
    @dataclass
    class Base:
        size: int

    @checked
    @dataclass(init=False)
    class Below(Base):
        pass

    for kind in (Base, Below):
        begin_test()
        assert kind(3).size == 3
        with pytest.raises(jaxtyping.TypeCheckError, match="parameter size='three'"):
            kind("three")
