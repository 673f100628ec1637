"""A layer whose arguments cannot work is refused where it is made; the error names argument and value."""

import inspect
import math

import pytest
import torch

import regard.layers
from regard.layers import (
    EncoderBlock,
    FeedForward,
    MultiHeadAttention,
    SelfAttention,
    SinusoidalPositions,
)
from regard.layers.norm import norm

SIZES = {
    "d_model": 16, "num_heads": 4, "num_kv_heads": 2, "d_ff": 32, "vocab_size": 9, "d_head": 8, "d_input": 8,
    "d_memory": 16, "channels": 3, "patch_size": 4, "rows": 2, "columns": 2, "max_positions": 8, "window": 4,
    "kernel_size": 3, "num_layers": 1, "width": 16, "num_features": 8, "factor": 4, "table_len": 8,
    "num_buckets": 8, "max_distance": 16, "offset": 1, "key_dim": 8, "value_dim": 8, "capacity": 4,
    "rotary_dim": 4, "before": 1, "first": 0,
}  # fmt: skip
MAY_BE_0 = ("before", "offset", "first")
SHARES = ("dropout", "attention_dropout", "value_dropout")
OTHERS = {"bidirectional": True, "cell": "gru"}


def constructors():
    """The layers of `regard.layers` that are made of numbers, and the `of_size` of blocks."""
    for name in regard.layers.__all__:
        layer = getattr(regard.layers, name)
        make = getattr(layer, "of_size", layer)
        if not isinstance(layer, type) or name.endswith("Scaling"):
            continue
        parameters = inspect.signature(make).parameters.values()
        needed = [each.name for each in parameters if each.default is each.empty]
        known = {**SIZES, **OTHERS, **dict.fromkeys(SHARES, 0.1)}
        if needed and {*needed} <= {*known}:
            yield name, make, {each: known[each] for each in needed}


FOUND = {name: (make, needed) for name, make, needed in constructors()}


def test_most_layers_are_made_of_numbers():
    others = {"PostNorm", "PreNorm", "SandwichNorm", "ReorderedNorm", "RMSNorm", "RelativeSelfAttention"}
    classes = {name for name in regard.layers.__all__ if isinstance(getattr(regard.layers, name), type)}
    named = {name for name in classes if not name.endswith("Scaling")}
    assert named - {*FOUND} <= {*others, "KeyValueCache"}


@pytest.mark.parametrize("name", FOUND)
def test_a_wrong_size_or_dropout_is_named_with_its_value(monkeypatch, name):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    make, needed = FOUND[name]
    make(**needed)
    for each in inspect.signature(make).parameters:
        wrong = ("16", 2.5, True, -3, *(() if each in MAY_BE_0 else (0,))) if each in SIZES else ()
        wrong = ("0.1", -0.5, 1.0, math.nan, None) if each in SHARES else wrong
        for value in wrong:
            with pytest.raises(ValueError, match=each) as refused:
                make(**{**needed, each: value})
            assert f"({value!r})" in str(refused.value), (each, value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MultiHeadAttention(16, 3), r"d_model \(16\) must be divisible by num_heads \(3\)"),
        (lambda: SelfAttention(16, 4, scale=math.nan), r"scale \(nan\) must be a number above 0"),
        (lambda: SelfAttention(16, 4, softcap="50"), r"softcap \('50'\) must be a number above 0"),
        (lambda: SinusoidalPositions(16, "interleave"), r"layout \('interleave'\) must be one of 'interl"),
        (lambda: EncoderBlock.of_size(16, 4, 32, norm_position="middle"), r"norm_position \('middle'\) must"),
        (lambda: EncoderBlock.of_size(16, 4, 32, normalisation="batch"), r"norm \('batch'\) must be one of"),
        (lambda: FeedForward(16, 32, "gelu"), r"activation \('gelu'\) must be a function"),
        (lambda: FeedForward(16, 32, torch.nn.GELU), r"activation \(.*GELU'>\) must be a function"),
        (lambda: norm("rms", "16"), r"d_model \('16'\) must be a whole number"),
    ],
)
def test_other_arguments_that_cannot_work_are_named(monkeypatch, make, message):
    monkeypatch.setattr("jaxtyping.config.jaxtyping_disable", True)
    with pytest.raises(ValueError, match=message):
        make()
