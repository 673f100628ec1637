"""Registered positional encodings that a model could not use are refused by name when it is built."""

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import ConfigError
from regard.layers.positions import BucketBias, RotaryPositions
from regard.models.registered import register_attention, register_positions
from tests.models.small_models import decoder, encoder, translation
from tests.models.test_part_trials import Attends

pytestmark = pytest.mark.usefixtures("parts_only_here")


class Given(nn.Module):
    """An encoding that a function computes; `table` is a parameter, if it has one."""

    def __init__(self, give, table=None):
        super().__init__()
        self.give = give
        self.table = None if table is None else nn.Parameter(table)

    def forward(self, *given):
        return self.give(self, *given)


class GivenRotation(RotaryPositions):
    give = staticmethod(lambda rotation, x, start: RotaryPositions.forward(rotation, x, start))

    def forward(self, x, start=0):
        return self.give(self, x, start)


def rows(start, length):
    return torch.arange(float(start), start + length)[:, None].expand(length, 16)


def offsets(queries, keys):
    return torch.arange(keys) - torch.arange(keys)[keys - queries :, None]


def registered(where, give, *table):
    def make(config, bidirectional):
        if where != "queries_and_keys":
            return Given(give, *table)
        rotation = GivenRotation(config.d_head)
        rotation.give = give
        return rotation

    register_positions("mine", where)(make)


@pytest.mark.parametrize("build", [decoder, encoder, translation])
@pytest.mark.parametrize(
    ("where", "give", "table"),
    [
        ("input", lambda part, start, length: torch.ones(length, 16), []),
        ("input", lambda part, start, length: 0 * part.table[start : start + length], [torch.zeros(9, 16)]),
        ("input", lambda part, start, length: part.table.expand(length, -1), [torch.randn(16)]),
        ("scores", lambda part, queries, keys: torch.zeros(queries, keys), []),
        ("scores", lambda part, queries, keys: torch.arange(keys - queries, keys)[:, None] * 1.0, []),
        ("queries_and_keys", lambda part, x, start: x, []),
        ("queries_and_keys", lambda part, x, start: 2 * x, []),
    ],
    ids=["one vector", "zeros", "learned", "no bias", "of queries", "unchanged", "twice"],
)
def test_an_encoding_that_never_tells_positions_apart_is_refused(build, where, give, table):
    registered(where, give, *table)
    with pytest.raises(ConfigError, match="'mine' gives the same for each of the first") as error:
        build(positions="mine")
    assert "positions = 'none'" in error.value.hint


@pytest.mark.parametrize(
    ("where", "give", "table"),
    [
        ("input", lambda part, start, length: part.table[start : start + length], [torch.zeros(9, 16)]),
        ("input", lambda part, start, length: part.table * rows(start, length), [torch.zeros(1)]),
        ("input", lambda part, start, length: rows(start, length) // 20, []),
        ("scores", lambda part, queries, keys: part.table * offsets(queries, keys), [torch.zeros(1)]),
        ("scores", lambda part, queries, keys: torch.zeros(1).where(offsets(queries, keys) > -99, -1e9), []),
    ],
    ids=["table of zeros", "factor of zero", "segments", "slope of zero", "window"],
)
def test_an_encoding_whose_positions_can_differ_is_accepted(where, give, table):
    registered(where, give, *table)
    for build in (decoder, encoder, translation):
        model = build(positions="mine")
        assert not any(each.any() for name, each in model.named_parameters() if name.endswith("s.table"))


def test_t5_positions_that_begin_at_0_are_accepted():
    class Zero(BucketBias):
        def __init__(self, config, bidirectional):
            super().__init__(config.num_heads, bidirectional=bidirectional)
            nn.init.zeros_(self.weight)

    register_positions("mine", "scores")(Zero)
    for build in (decoder, encoder, translation):
        build(positions="mine")


def test_a_bias_of_the_encoder_alone_is_accepted():
    register_positions("mine", "scores")(
        lambda config, bidirectional: Given(
            lambda part, queries, keys: offsets(queries, keys) * (1.0 if bidirectional else 0.0)
        )
    )
    translation(positions="mine")
    with pytest.raises(ConfigError, match="gives the same for each"):
        decoder(positions="mine")


def test_a_bias_of_queries_alone_has_an_effect_without_softmax():
    class Sigmoid(Attends):
        def attend(self, query, key, value, mask=None, position_bias=None, dropout=0.0):
            scores = query @ key.transpose(2, 3) + (0 if position_bias is None else position_bias)
            return (scores.sigmoid() * (1 if mask is None else mask)) @ value

    register_attention("mine")(Sigmoid)
    registered("scores", lambda part, queries, keys: -torch.arange(1.0, 1 + keys)[keys - queries :, None])
    decoder(positions="mine", attention="mine")


@pytest.mark.parametrize(
    ("where", "give", "type"),
    [
        ("input", lambda part, start, length: rows(start, length).double(), "float64"),
        ("input", lambda part, start, length: rows(start, length).long(), "int64"),
        ("scores", lambda part, queries, keys: torch.from_numpy(1.0 * np.eye(keys)[-queries:]), "float64"),
        ("scores", lambda part, queries, keys: offsets(queries, keys), "int64"),
        (
            "queries_and_keys",
            lambda part, x, start: RotaryPositions.forward(part, x, start).double(),
            "float64",
        ),
    ],
)
def test_positions_of_another_type_than_the_states_are_refused(where, give, type):
    registered(where, give)
    message = rf"'mine' gives torch\.{type}, but states are torch\.float32"
    for build in (decoder, encoder, translation):
        with pytest.raises(ConfigError, match=message) as error:
            build(positions="mine")
        assert "NumPy" in error.value.hint


@pytest.mark.parametrize("where", ["input", "scores"])
def test_positions_without_a_forward_are_refused(where):
    register_positions("mine", where)(lambda config, bidirectional: nn.Module())
    with pytest.raises(ConfigError, match="the positional encoding 'mine' has no forward") as error:
        decoder(positions="mine")
    assert error.value.hint.startswith("define forward(self, ")


@pytest.mark.parametrize(
    ("where", "give", "message"),
    [
        ("input", lambda part, start, length: rows(start, length) * torch.nan, "gives NaN"),
        ("input", lambda part, start, length: part.rows, "fails: AttributeError: .*'rows'"),
        ("scores", lambda part, queries, keys: offsets(queries, keys) * torch.nan, "gives NaN"),
        ("scores", lambda part, queries, keys: offsets(queries, keys) + torch.ones(7), "fails: RuntimeError"),
        ("queries_and_keys", lambda part, x, start: x[..., :2], r"gives \[2, 1, 5, 2\] for queries of"),
        ("queries_and_keys", lambda part, x, start: (x, start), "gives tuple for queries of"),
    ],
)
def test_positions_that_cannot_be_used_are_named(where, give, message):
    registered(where, give)
    for build in (decoder, encoder, translation):
        with pytest.raises(ConfigError, match=f"'mine' {message}"):
            build(positions="mine")


def test_an_encoding_of_a_short_table_is_accepted():
    registered("input", lambda part, start, length: part.table[start : start + length], torch.randn(4, 16))
    decoder(positions="mine")
