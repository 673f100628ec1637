"""Attention rollout: what a position is made of after several layers (Abnar and Zuidema 2020)."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.inspection.passes import AttentionSite, Part


def rollout(
    weights: Sequence[Float[Tensor, "heads len len"]], *, residual: float = 0.5
) -> Float[Tensor, "len len"]:
    """How much of each input (column) is in each output (row) of a stack; rows sum to 1.

    `weights` are those of the stack's self-attentions, the lowest layer's first; heads are averaged. A layer
    hands on A = residual I + (1 - residual) W, what passes it by counted (section 3, where half does); the
    product of all layers is the rollout. It knows nothing of values, norms and feed-forward layers.

    Raises:
        ValueError: there are no layers.
    """
    if not weights:
        raise ValueError("a rollout needs the weights of one layer or more")
    found = torch.eye(weights[0].size(-1), device=weights[0].device)
    for layer in weights:
        looked_at = layer.float().mean(dim=0)
        through = residual * torch.eye(len(found), device=found.device) + (1 - residual) * looked_at
        through = through / through.sum(dim=-1, keepdim=True)  # who may look nowhere keeps what it has
        found = through @ found
    return found


def rollouts(
    weights: Mapping[str, Float[Tensor, "_heads _len _len"]],
    places: Sequence[AttentionSite],
    *,
    residual: float = 0.5,
) -> dict[Part, Float[Tensor, "_len _len"]]:
    """That of each stack all of whose self-attentions are given by name: of the encoder, of the decoder."""
    parts: dict[Part, list[str]] = {}
    for place in places:
        if place.part != "cross":
            parts.setdefault(place.part, []).append(place.name)
    return {
        part: rollout([weights[name] for name in names], residual=residual)
        for part, names in parts.items()
        if all(name in weights for name in names)
    }
