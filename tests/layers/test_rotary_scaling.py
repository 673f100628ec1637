"""Scaled rotary positions: which frequencies change, and by how much."""

import math

import pytest
import torch

from regard.layers.positions import RotaryPositions
from regard.layers.rotary_scaling import (
    SCALINGS,
    DynamicScaling,
    LinearScaling,
    Llama3Scaling,
    YarnScaling,
)

LENGTH = {kind: {} if kind == "linear" else {"original_length": 64} for kind in SCALINGS}
USUAL = 500.0 ** -(torch.arange(0, 32, 2, dtype=torch.float64) / 32)
WHOLE = {"llama3": {"high_frequency": 2.0}, "yarn": {"beta_fast": 2.0}}


def scaled(kind, factor=4.0, **settings):
    return SCALINGS[kind](**{"factor": factor, **LENGTH[kind], **settings})


@pytest.mark.parametrize("kind", SCALINGS)
def test_a_factor_of_1_changes_nothing(kind):
    usual = RotaryPositions(32, 500.0).sines_and_cosines(0, 60)
    found = RotaryPositions(32, 500.0, scaling=scaled(kind, factor=1.0)).sines_and_cosines(0, 60)
    torch.testing.assert_close(found, usual)


def test_with_a_linear_scaling_positions_are_factor_times_as_close():
    usual, linear = RotaryPositions(8), RotaryPositions(8, scaling=scaled("linear"))
    for position in (0, 1, 5, 900):
        torch.testing.assert_close(
            linear.sines_and_cosines(4 * position, 1), usual.sines_and_cosines(position, 1)
        )


@pytest.mark.parametrize("kind", ["llama3", "yarn"])
def test_low_frequencies_are_divided_and_high_ones_are_not(kind):
    quotients = USUAL / scaled(kind, **WHOLE[kind]).frequencies(USUAL, 500.0)
    rotations = 64 * USUAL / (2 * math.pi)
    pairs = torch.arange(16)
    few, many = pairs[rotations < 1], pairs[rotations > 2]
    assert len(few) > 2
    assert len(many) > 2
    rest = slice(1, None) if kind == "yarn" else slice(None)  # its bounds are whole pairs
    assert torch.allclose(quotients[few][rest], torch.tensor(4.0, dtype=torch.float64))
    assert torch.allclose(quotients[many][:-1], torch.tensor(1.0, dtype=torch.float64))
    assert (quotients.diff() >= -1e-9).all()
    between = (quotients > 1.001) & (quotients < 3.999)
    assert between.any()


def test_yarn_multiplies_queries_and_keys():
    x = torch.randn(1, 1, 3, 8)
    for settings, amplitude in (({}, 0.1 * math.log(4) + 1), ({"attention_factor": 0.6}, 0.6)):
        turned = RotaryPositions(8, scaling=scaled("yarn", **settings))(x)
        torch.testing.assert_close(turned.norm(dim=-1), amplitude * x.norm(dim=-1))


def test_yarn_bounds_are_whole_pairs_only_if_truncated():
    whole, exact = (
        scaled("yarn", beta_fast=3.0, truncate=each).frequencies(USUAL, 500.0) for each in (True, False)
    )
    assert not torch.allclose(whole, exact)


def test_a_dynamic_scaling_has_the_usual_angles_up_to_its_length_and_no_others():
    dynamic = RotaryPositions(8, scaling=scaled("dynamic"))
    torch.testing.assert_close(dynamic.sines_and_cosines(3, 61), RotaryPositions(8).sines_and_cosines(3, 61))
    with pytest.raises(ValueError, match="65 positions, but their scaling has angles for 64 only"):
        dynamic(torch.randn(1, 1, 1, 8), start=64)
    assert dynamic(torch.randn(1, 1, 1, 8), start=63).shape == (1, 1, 1, 8)


@pytest.mark.parametrize("kind", ["linear", "llama3", "yarn"])
def test_beyond_the_table_angles_are_those_of_a_longer_table(kind):
    short, long = (
        RotaryPositions(8, table_len=length, scaling=scaled(kind), rotary_dim=4) for length in (8, 64)
    )
    for start, length in ((0, 9), (20, 3), (7, 2)):
        torch.testing.assert_close(
            short.sines_and_cosines(start, length), long.sines_and_cosines(start, length)
        )


def test_a_part_of_the_features_is_rotated_as_a_head_of_that_width():
    x = torch.randn(2, 3, 5, 10)
    turned = RotaryPositions(10, 100.0, rotary_dim=6)(x, start=2)
    assert torch.equal(turned[..., 6:], x[..., 6:])
    torch.testing.assert_close(turned[..., :6], RotaryPositions(6, 100.0)(x[..., :6], start=2))
    assert torch.equal(RotaryPositions(6, rotary_dim=6)(x[..., :6]), RotaryPositions(6)(x[..., :6]))


@pytest.mark.parametrize(
    ("width", "message"),
    [
        (5, "rotary_dim \\(5\\) must be even"),
        (12, "rotary_dim \\(12\\) must be from 2 to d_head \\(10\\)"),
        (0, "rotary_dim \\(0\\) must be 2 or more"),
    ],
)
def test_a_part_has_pairs_of_features_of_the_head(width, message):
    with pytest.raises(ValueError, match=message):
        RotaryPositions(10, rotary_dim=width)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LinearScaling(factor=0.5), "factor = 0.5 is below 1"),
        (lambda: LinearScaling(factor=math.nan), "factor = nan"),
        (lambda: DynamicScaling(factor=2.0, original_length=0), "original_length = 0 is below 1"),
        (lambda: Llama3Scaling(factor=2.0, original_length=-1), "original_length = -1 is below 1"),
        (
            lambda: scaled("llama3", low_frequency=4.0),
            "low_frequency = 4.0 is not between 0 and high_frequency",
        ),
        (lambda: YarnScaling(factor=2.0, original_length=0), "original_length = 0 is below 1"),
        (lambda: scaled("yarn", beta_slow=33.0), "beta_slow = 33.0 is not between 0 and beta_fast = 32"),
        (lambda: scaled("yarn", attention_factor=0.0), "attention_factor = 0.0 is not above 0"),
    ],
)
def test_a_value_that_cannot_work_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
