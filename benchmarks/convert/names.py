"""The weights of a block of regard under short names, which the converters share."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from benchmarks.common.unfit import Unfit

Weights = Mapping[str, Tensor]


def refuse(config: Any, **needed: tuple[Any, ...]) -> None:
    """Raises Unfit if the other library does not support a setting of the model."""
    for name, known in needed.items():
        value = getattr(config, name)
        if value not in known:
            raise Unfit(f"the peer has no {name} = {value!r}, only {', '.join(map(repr, known))}")


def block(weights: Weights, name: str) -> dict[str, Tensor]:
    """The weights of one block of regard: `self.in`, `self.out`, `cross.q`, `ff.in`, `norm.self` and so on.

    Each name is followed by `.weight` or `.bias`; biases that the model does not have are absent.
    """
    parts = {
        "self.in": "self_attention.query_key_value",
        "self.out": "self_attention.output",
        "cross.q": "cross_attention.query",
        "cross.k": "cross_attention.key",
        "cross.v": "cross_attention.value",
        "cross.out": "cross_attention.output",
        "ff.in": "feed_forward.inner",
        "ff.out": "feed_forward.outer",
        "norm.self": "around_self_attention.norm",
        "norm.cross": "around_cross_attention.norm",
        "norm.ff": "around_feed_forward.norm",
    }
    return {
        f"{short}.{kind}": weights[f"{name}.{long}.{kind}"]
        for short, long in parts.items()
        for kind in ("weight", "bias")
        if f"{name}.{long}.{kind}" in weights
    }


def renamed(own: Weights, names: Mapping[str, str]) -> dict[str, Tensor]:
    """The weights and biases of a block under another library's names, if they are present."""
    return {
        f"{theirs}.{kind}": own[f"{ours}.{kind}"]
        for ours, theirs in names.items()
        for kind in ("weight", "bias")
        if f"{ours}.{kind}" in own
    }


def unstacked(own: Weights, names: tuple[str, str, str]) -> dict[str, Tensor]:
    """Queries, keys and values of self-attention as separate matrices under these names."""
    return {
        f"{name}.{kind}": part
        for kind in ("weight", "bias")
        for name, part in zip(names, own[f"self.in.{kind}"].chunk(3), strict=True)
    }


def stacked(found: Mapping[str, Tensor], names: tuple[str, ...], kind: str) -> Tensor:
    """Several matrices, or their biases, as one."""
    return torch.cat([found[f"{name}.{kind}"] for name in names])
