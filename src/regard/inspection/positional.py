"""A model's positions as a table, a similarity matrix or a bias of attention scores.

Every scheme of layers/positions.py is covered; the numbers come from the model's own module.
"""

from dataclasses import dataclass, replace
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.layers.patches import GridPositions
from regard.layers.positions import (
    BucketBias,
    LearnedPositions,
    LinearBias,
    RotaryPositions,
    SinusoidalPositions,
)
from regard.models.model import Model

Scheme = Literal["sinusoidal", "learned", "rotary", "alibi", "t5", "none"]
Stack = Literal["encoder", "decoder"]
POSITION_MODULES = (
    SinusoidalPositions,
    LearnedPositions,
    GridPositions,
    RotaryPositions,
    LinearBias,
    BucketBias,
)

NOTES: dict[Scheme, str] = {
    "sinusoidal": "Row p is added to the embedding of the token at p. Similarity is the cosine of two rows;"
    " it depends on their distance alone.",
    "learned": "Row p is learned and added to the embedding of the token at p. Similarity is the cosine of"
    " two rows.",
    "rotary": "Queries and keys are rotated by angles that grow with the position; row p has the cosines of"
    " its angles, then their sines. Similarity is the mean cosine between a vector rotated to one position"
    " and the same vector rotated to the other: how much distance alone lowers a score.",
    "alibi": "Each head lowers its scores by its slope times the distance; in an encoder half of the heads"
    " have this slope for earlier positions and half for later ones, with slope 1 for the others. Nothing is"
    " added to embeddings.",
    "t5": "Each head adds a learned bias to its scores for each bucket of distances. Nothing is added to"
    " embeddings.",
    "none": "The model has no positions.",
}


OTHER_LAYERS = "These are the positions of the first layer; layers of another type have another base."


@dataclass(frozen=True, kw_only=True)
class Positional:
    """The first `length` positions of a scheme; arrays that the scheme does not have are None."""

    scheme: Scheme
    length: int
    d: int  # the width of the table; 0 without one
    note: str
    table: Float[Tensor, "len d"] | None = None
    similarity: Float[Tensor, "len len"] | None = None
    bias: Float[Tensor, "heads len len"] | None = None  # rows attend to columns


@torch.no_grad()
def positions_of(model: Model, length: int, *, part: Stack = "encoder") -> Positional:
    """The positions of a model; `part` chooses the encoder or decoder if it has both.

    There are fewer than `length` if the model has learned fewer.
    """
    stack = getattr(model, part, model)
    modules = [each for each in stack.modules() if isinstance(each, POSITION_MODULES)]
    found = _positional(modules[0] if modules else None, length)
    if len(modules) > 1 and found.scheme == "rotary":
        found = replace(found, note=f"{found.note} {OTHER_LAYERS}")
    return found


def _positional(module: nn.Module | None, length: int) -> Positional:
    match module:
        case SinusoidalPositions():
            return _from_table("sinusoidal", module(0, length))
        case LearnedPositions():
            return _from_table("learned", module(0, min(length, module.max_positions)))
        case GridPositions():  # all: the class token, if any, then the grid row by row
            return _from_table("learned", module.weight)
        case RotaryPositions():
            return _from_table("rotary", _rotation_table(module, length))
        case LinearBias():
            return _from_bias("alibi", module(length, length)[0])
        case BucketBias():
            return _from_bias("t5", module(length, length)[0])
    return Positional(scheme="none", length=length, d=0, note=NOTES["none"])


def _from_table(scheme: Scheme, table: Float[Tensor, "len d"]) -> Positional:
    table = table.float().cpu()
    directions = F.normalize(table, dim=-1)
    length, width = table.shape
    return Positional(
        scheme=scheme,
        length=length,
        d=width,
        note=NOTES[scheme],
        table=table,
        similarity=directions @ directions.T,
    )


def _rotation_table(module: RotaryPositions, length: int) -> Float[Tensor, "{length} rotary_dim"]:
    """The rotated vector (1, ..., 1, 0, ..., 0) at each position: cosines of all angles, then their sines.

    Rows p and q have the cosine 2 / d * sum_i cos((p - q) theta_i), of the d features that are rotated. This
    is the trace of the rotation from p to q divided by d: the mean cosine between a vector and its rotation.
    """
    ones = torch.zeros(1, 1, length, module.d_head, device=module.sine.device)
    ones[..., : module.rotary_dim // 2] = 1.0
    return module(ones)[0, 0, :, : module.rotary_dim]


def _from_bias(scheme: Scheme, bias: Float[Tensor, "heads len len"]) -> Positional:
    return Positional(scheme=scheme, length=bias.size(1), d=0, note=NOTES[scheme], bias=bias.float().cpu())
