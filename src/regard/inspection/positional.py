"""Where a model thinks a token stands: its positions as a table, as likenesses, as a bias of scores.

Of every scheme of layers/positions.py, from the model's own module.
"""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

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
Part = Literal["encoder", "decoder"]
KNOWN = (SinusoidalPositions, LearnedPositions, GridPositions, RotaryPositions, LinearBias, BucketBias)

NOTES: dict[Scheme, str] = {
    "sinusoidal": "Row p is added to the embedding of the token at p. Similarity is the cosine of two rows;"
    " it depends on their distance alone.",
    "learned": "Row p is learned and added to the embedding of the token at p. Similarity is the cosine of"
    " two rows.",
    "rotary": "Queries and keys are turned by angles that grow with the position; row p has the cosines of"
    " its angles, then their sines. Similarity is the cosine that a vector has left with itself when the two"
    " are turned to their positions, in the mean over all directions: how much distance alone takes from a"
    " score.",
    "alibi": "Each head lowers its scores by its slope times the distance; in an encoder half of the heads"
    " have theirs for what came before, half for what comes after, and the slope 1 for the rest. Nothing is"
    " added to embeddings.",
    "t5": "Each head adds a learned number to its scores for each bucket of distances. Nothing is added to"
    " embeddings.",
    "none": "The model is not told positions.",
}


@dataclass(frozen=True, kw_only=True)
class Positional:
    """The first `length` positions as a scheme tells them; None is what it does not have."""

    scheme: Scheme
    length: int
    d: int  # the width of the table, 0 where there is none
    note: str
    table: Float[Tensor, "len d"] | None = None
    similarity: Float[Tensor, "len len"] | None = None
    bias: Float[Tensor, "heads len len"] | None = None  # rows look at columns


@torch.no_grad()
def positional(model: Model, length: int, *, part: Part = "encoder") -> Positional:
    """The positions of a model; of its encoder or its decoder where it has both.

    Fewer than `length` where the model has learned fewer.
    """
    stack = getattr(model, part, model)
    module = next((each for each in stack.modules() if isinstance(each, KNOWN)), None)
    match module:
        case SinusoidalPositions():
            return _of_table("sinusoidal", module(0, length))
        case LearnedPositions():
            return _of_table("learned", module(0, min(length, module.max_positions)))
        case GridPositions():  # all of them: a token of its own, then the grid row by row
            return _of_table("learned", module.weight)
        case RotaryPositions():
            return _of_table("rotary", _turns(module, length))
        case LinearBias():
            return _of_bias("alibi", module(length, length)[0])
        case BucketBias():
            return _of_bias("t5", module(length, length)[0])
    return Positional(scheme="none", length=length, d=0, note=NOTES["none"])


def _of_table(scheme: Scheme, table: Float[Tensor, "len d"]) -> Positional:
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


def _turns(module: RotaryPositions, length: int) -> Float[Tensor, "{length} d_head"]:
    """What the module makes of the vector (1, ..., 1, 0, ..., 0): cos of each pair's angle, then sin.

    Two rows have the cosine 2 / d_head * sum_i cos((p - q) theta_i): the trace of the turn from p to q by
    d_head, which is what a vector keeps of its own direction in the mean over all of them.
    """
    ones = torch.zeros(1, 1, length, module.d_head, device=module.sine.device)
    ones[..., : module.d_head // 2] = 1.0
    return module(ones)[0, 0]


def _of_bias(scheme: Scheme, bias: Float[Tensor, "heads len len"]) -> Positional:
    return Positional(scheme=scheme, length=bias.size(1), d=0, note=NOTES[scheme], bias=bias.float().cpu())
