"""Tokens whose embeddings point where another's does: what a model takes for alike before it reads on."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.decoding.ranking import top_candidates
from regard.inspection.attribution import token_embedding
from regard.inspection.passes import ForcedPass, SequenceName


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A token and the cosine between its embedding and that of the token asked for."""

    id: int
    cosine: float


def neighbours(forced: ForcedPass, *, count: int = 8) -> dict[SequenceName, list[tuple[Neighbour, ...]]]:
    """Those of each token that enters the model, sequence by sequence; what is written is not read here."""
    return {
        name: nearest(token_embedding(forced.model, name).weight, ids, count)
        for name, ids in forced.sequences.items()
        if name != "written"
    }


@torch.no_grad()
def nearest(
    table: Float[Tensor, "vocab width"], ids: Sequence[int], count: int = 8
) -> list[tuple[Neighbour, ...]]:
    """The `count` other tokens with the greatest cosine, the nearest first; all where there are fewer.

    A token whose embedding is zero is as far from all: its cosines are 0.
    """
    if not ids:
        return []
    asked, place = torch.tensor(ids, device=table.device).unique(return_inverse=True)
    directions = F.normalize(table.float(), dim=-1)
    cosines = directions[asked] @ directions.T
    cosines.scatter_(1, asked[:, None], -torch.inf)  # itself
    values, found = top_candidates(cosines, min(count, len(table) - 1))
    rows = [tuple(map(Neighbour, *row)) for row in zip(found.tolist(), values.tolist(), strict=True)]
    return [rows[number][: len(table) - 1] for number in place.tolist()]
