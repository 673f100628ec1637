"""Rotary positions of a config.json: the factor of its scores, and what contradicts itself or is missing."""

import math

import pytest

from regard.errors import FolderError
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.weights.families.family import ConfigReader
from regard.weights.families.rotary import (
    _attention_factor,
    _number,
    read_rotary,
    read_rotary_by_type,
    write_rotary,
    write_rotary_by_type,
)

LOG = math.log(1.5)
BASES = {"bases": ("rope_theta", "rope_local_base_freq"), "usual": (1e6, 1e4)}


def reader(**table):
    return ConfigReader(table, "it")


def refused(message, call, *given, **named):
    with pytest.raises(FolderError, match=f"^it: {message}") as caught:
        call(*given, **named)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("table", "factor"),
    [
        ({"factor": math.e, "mscale": 2.0, "mscale_all_dim": 1.0}, 1.2 / 1.1),
        ({"factor": math.e, "mscale": 1, "mscale_all_dim": 2}, 1.1 / 1.2),
        ({"factor": 1.5, "mscale": 2, "mscale_all_dim": 3}, (1 + 0.2 * LOG) / (1 + 0.3 * LOG)),
        ({"factor": 1.0, "mscale": 2.0, "mscale_all_dim": 1.0}, 1.0),
        ({"factor": 0.5, "mscale": 2.0, "mscale_all_dim": 1.0}, 1.0),
        ({"mscale": 2.0, "mscale_all_dim": 1.0}, 1.0),
        ({"factor": 4.0, "mscale": 2.0}, None),
        ({"factor": 4.0, "mscale_all_dim": 2.0}, None),
        ({"factor": 4.0, "mscale": 0.0, "mscale_all_dim": 1.0}, None),
        ({"factor": 4.0}, None),
    ],
    ids=str,
)
def test_two_scales_together_are_the_factor_of_the_scores(table, factor):
    found = _attention_factor(reader(), table)
    assert found == (None if factor is None else pytest.approx(factor))


@pytest.mark.parametrize("local", [None, 20.0])
def test_older_versions_of_transformers_find_both_bases_at_the_top(local):
    config = EncoderOnlyConfig(
        vocab_size=9, head="none", positions="rotary", window=4, rotary_base=500.0, local_rotary_base=local
    )
    written = write_rotary_by_type(config, BASES["bases"])
    assert (written["rope_theta"], written["rope_local_base_freq"]) == (500.0, local or 500.0)


def test_a_number_is_one():
    for value, number in ((None, 3.0), (2, 2.0), (0, 0.0), (0.5, 0.5)):
        found = _number(reader(), {"a": value}, "a", 3.0)
        assert (found, type(found)) == (number, float)
    for value in ("2", True, [2]):
        refused("a = .* is not a number", _number, reader(), {"a": value}, "a", 3.0)


@pytest.mark.parametrize(
    ("rotary_dim", "given", "factor"),
    [(None, {}, None), (8, {}, None), (4, {}, 0.5), (None, {"partial": True}, 1.0)],
)
def test_a_factor_is_written_for_a_part_of_each_head_or_if_the_family_has_one(rotary_dim, given, factor):
    config = DecoderOnlyConfig(
        vocab_size=9, d_model=16, num_heads=2, positions="rotary", rotary_dim=rotary_dim
    )
    found = write_rotary(config, **given)
    assert found.get("partial_rotary_factor") == factor
    assert found["rope_parameters"].get("partial_rotary_factor") == factor


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"rope_scaling": {"rope_type": "ntk"}}, "rotary positions of type 'ntk' are not supported"),
        ({"rope_scaling": {"rope_type": 3}}, "rotary positions of type 3 are not supported"),
        ({"rope_scaling": {"type": "linear"}}, "'factor' of rotary positions is missing"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "mscale": 1.0}}, "mscale = 1.0 of rotary"),
        ({"rope_scaling": {"type": "linear", "factor": 2**63}}, "factor is an integer of 64 bits"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 of rotary positions is not supported"),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}, "rope_parameters": {"rope_theta": 5.0}},
            "rope_parameters and rope_scaling differ",
        ),
    ],
    ids=str,
)
def test_settings_that_cannot_be_computed_are_refused(table, message):
    refused(message, read_rotary, reader(**table), 64)


def test_the_base_is_at_the_top_or_in_the_table_which_comes_first():
    assert read_rotary(reader(), 64).base == 10_000.0
    assert read_rotary(reader(rope_theta=5.0), 64).base == 5.0
    found = read_rotary(reader(rope_theta=5.0, rope_parameters={"rope_theta": 7.0}), 64)
    assert (found.base, found.rotated, found.scaling) == (7.0, 1.0, None)
    assert read_rotary(reader(partial_rotary_factor=0.5), 64, partial=True).rotated == 0.5
    both = {"type": "linear", "factor": 2.0}
    same = reader(rope_scaling=both, rope_parameters={"rope_type": "linear", "factor": 2.0})
    assert read_rotary(same, 64).scaling.factor == 2.0, "two names of the type"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            {"rope_scaling": {"factor": 2.0}, "rope_parameters": {"full_attention": {}}},
            "rope_parameters and rope_scaling are both set",
        ),
        ({"rope_parameters": {"other": {}}}, "'other' of rope_parameters is not the table of a type"),
        ({"rope_parameters": {"full_attention": 3}}, "'full_attention' of rope_parameters is not the table"),
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "type = 'linear' of rope_scaling is not"),
        (
            {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}},
            "rope_parameters of sliding_attention are scaled",
        ),
    ],
    ids=str,
)
def test_tables_by_type_of_layer_that_cannot_be_are_refused(table, message):
    refused(message, read_rotary_by_type, reader(**table), 64, **BASES)


def test_layers_with_a_window_have_a_base_of_their_own():
    full, local = read_rotary_by_type(reader(), 64, **BASES)
    assert (full.base, local.base) == (1e6, 1e4)
    tables = {"full_attention": {"rope_theta": 5.0}, "sliding_attention": None}
    full, local = read_rotary_by_type(reader(rope_local_base_freq=7.0, rope_parameters=tables), 64, **BASES)
    assert (full.base, local.base) == (5.0, 7.0)
    scaled = {"rope_type": "linear", "type": "linear", "factor": 2.0}
    full, local = read_rotary_by_type(reader(rope_scaling=scaled), 64, **BASES)
    assert (full.scaling.factor, local.scaling) == (2.0, None)


def test_the_rotated_part_of_any_width_is_read_as_it_was_written():
    """30 / 44 * 44 is less than 30 in floating point, and the product is rounded down."""
    for d_head in range(2, 130, 2):
        for width in range(2, d_head, 2):
            config = DecoderOnlyConfig(
                vocab_size=9, d_model=d_head, num_heads=1, positions="rotary", rotary_dim=width
            )
            rotary = read_rotary(reader(**write_rotary(config)), 40, partial=True)
            assert rotary.settings(d_head)["rotary_dim"] == width
