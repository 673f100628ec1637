"""The bounds of a control, at their edges; what switches it off is always allowed."""

from dataclasses import dataclass

import pytest

from regard.decoding.control import Control, bounded, control, controls_of, refuse_out_of_range
from regard.errors import ConfigError


@pytest.mark.parametrize("value", [-1, 0, 1, 0.5, 7, 9, 9.0])
def test_the_bounds_themselves_and_the_neutral_value_are_allowed(value):
    Control(least=0, smallest=0.5, most=9, neutral=-1).refuse("x", value, 5)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (-0.5, "must be at least 0"),
        (-2, "must be at least 0"),
        (0.25, "must be 0 or at least 0.5"),
        (10, "must be at most 9"),
        (9.5, "must be at most 9"),
        (float("inf"), "must be a finite number"),
        (float("nan"), "must be a finite number"),
        (2**63, "is beyond an integer of 64 bits"),
        (-(2**63) - 1, "is beyond an integer of 64 bits"),
    ],
)
def test_what_is_beyond_the_bounds_is_refused_with_what_would_do(value, why):
    with pytest.raises(ConfigError, match=why) as refused:
        Control(least=0, smallest=0.5, most=9, neutral=-1).refuse("x", value, 5)
    assert refused.value.hint == "x = 5 would do"


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 1e300, 0])
def test_a_control_without_bounds_takes_any_number_that_pytorch_has(value):
    Control().refuse("x", value, 5)
    Control(least=-(2.0**63)).refuse("x", 0.25, 5)  # without `smallest` nothing is too small


@dataclass
class First:
    size: int | None = control("How many.", neutral=1, least=2)
    share: float = bounded(0.5, least=0.0, most=1.0)
    name: str | None = control("Its name.")


@dataclass
class Second(First):
    size: int | None = bounded(3, least=3)
    share: float = 0.25
    other: int = 7


def test_a_field_without_a_declaration_has_that_of_the_class_above():
    assert {name: (each.help, each.least) for name, each in controls_of(Second).items()} == {
        "size": ("", 3),
        "share": ("", 0.0),
        "name": ("Its name.", None),
    }
    assert controls_of(First)["size"].help == "How many."


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        (First(size=0), "size = 1 would do"),
        (First(share=1.5), "share = 0.5 would do"),
        (Second(size=1), "size = 3 would do"),
        (Second(share=-0.5), "share = 0.25 would do"),
    ],
)
def test_the_hint_names_the_default_or_else_what_switches_it_off(settings, hint):
    with pytest.raises(ConfigError) as refused:
        refuse_out_of_range(settings)
    assert refused.value.hint == hint


def test_without_a_neutral_value_the_hint_names_the_least():
    @dataclass
    class Third:
        size: int | None = control("How many.", least=2)

    with pytest.raises(ConfigError) as refused:
        refuse_out_of_range(Third(size=0))
    assert refused.value.hint == "size = 2 would do"


def test_what_is_no_number_is_left_to_others():
    refuse_out_of_range(First(size=None, name="x"))
    refuse_out_of_range(First(size=1, share=1.0))
    refuse_out_of_range(Second(other=-7))
