"""A model's positions as a table, a similarity matrix or a bias of attention scores.

Every scheme of layers/positions.py is covered, and registered ones; the numbers come from the model's module.
"""

from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.errors import ConfigError, did_you_mean
from regard.inspection.names_given import refuse_other_module
from regard.inspection.numbers_given import refuse_other_count
from regard.layers.patches import GridPositions
from regard.layers.positions import (
    BucketBias,
    LearnedPositions,
    LinearBias,
    RotaryPositions,
    SinusoidalPositions,
)
from regard.models.model import Model
from regard.models.parts import InputEmbedding
from regard.models.positions import added_bias
from regard.models.registered import POSITIONS, Where

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


REGISTERED: dict[Where, str] = {
    "input": "A registered encoding: row p is added to the embedding of the token at p. Similarity is the"
    " cosine of two rows.",
    "queries_and_keys": "A registered encoding, which changes queries and keys; row p is what it makes of one"
    " vector at p. Similarity is the cosine of two rows.",
    "scores": "A registered encoding: each head adds its bias to its scores.",
}
LAST_POSITION = (
    "The bias depends on the positions, not on their distance alone: lines are those of the last one."
)
OTHER_LAYERS = "These are the positions of the first layer; layers of another type have another base."


@dataclass(frozen=True, kw_only=True)
class Positional:
    """The first `length` positions of a scheme; arrays that the scheme does not have are None."""

    scheme: Scheme | str  # or the name of a registered encoding
    length: int
    d: int  # the width of the table; 0 without one
    note: str
    table: Float[Tensor, "len d"] | None = None
    similarity: Float[Tensor, "len len"] | None = None
    bias: Float[Tensor, "heads len len"] | None = None  # rows attend to columns
    causal: bool = False  # True if rows attend to earlier columns only


@torch.no_grad()
def positions_of(model: Model, length: int, *, part: Stack = "encoder") -> Positional:
    """The positions of a model; `part` chooses the encoder or decoder if it has both.

    There are fewer than `length` if the model has learned fewer.

    Raises:
        ConfigError: `length` is below 1, or there is no such part.
    """
    refuse_other_module(model)
    refuse_other_count("length", length, "give one position or more: the length of a text will do")
    if part not in get_args(Stack):
        raise ConfigError(f"there is no part {part!r}", did_you_mean(part, get_args(Stack)))
    stack = getattr(model, part, model)
    found = _positions_of_stack(model, stack, length)
    return replace(found, causal=stack is model or part == "decoder")


def _positions_of_stack(model: Model, stack: nn.Module, length: int) -> Positional:
    name = getattr(model.config, "positions", "none")
    if name in POSITIONS.added:
        return _registered(stack, name, POSITIONS.added[name].where, length)
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


def _registered(stack: nn.Module, name: str, where: Where, length: int) -> Positional:
    """The positions of a registered encoding, by what its module gives."""
    if where == "input":
        [module, *_] = [each.positions for each in stack.modules() if isinstance(each, InputEmbedding)]
        return _from_table(name, module(0, length), REGISTERED[where])
    if where == "queries_and_keys":
        [module, *_] = [each for each in stack.modules() if isinstance(each, RotaryPositions)]
        return _from_table(name, _rotation_table(module, length), REGISTERED[where])
    [module, *_] = [each for part in stack.modules() if (each := getattr(part, "position_bias", None))]
    bias = cast(torch.Tensor, added_bias(module, length, length))[0].expand(-1, length, -1)
    note = REGISTERED[where] if depends_on_distance(bias) else f"{REGISTERED[where]} {LAST_POSITION}"
    return _from_bias(name, bias, note)


def depends_on_distance(bias: Float[Tensor, "heads len len"]) -> bool:
    """True if the bias of each head is the same for all pairs of positions at one distance."""
    return torch.equal(bias[:, 1:, 1:], bias[:, :-1, :-1])


def _from_table(scheme: str, table: Float[Tensor, "len d"], note: str | None = None) -> Positional:
    table = table.detach().float().cpu()
    directions = F.normalize(table, dim=-1)
    length, width = table.shape
    return Positional(
        scheme=scheme,
        length=length,
        d=width,
        note=note or NOTES[cast(Scheme, scheme)],
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


def _from_bias(scheme: str, bias: Float[Tensor, "heads len len"], note: str | None = None) -> Positional:
    note = note or NOTES[cast(Scheme, scheme)]
    return Positional(scheme=scheme, length=bias.size(1), d=0, note=note, bias=bias.detach().float().cpu())
