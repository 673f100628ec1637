"""Nearest neighbours in the embedding table: tokens with the most similar embeddings by cosine."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.decoding.ranking import top_candidates
from regard.inspection.attribution import token_embedding
from regard.inspection.numbers_given import refuse_other_count, refuse_other_ids
from regard.inspection.passes import ForcedPass, SequenceName


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A token, and the cosine between its embedding and that of the query token."""

    id: int
    cosine: float


def nearest_neighbours(
    forced: ForcedPass, *, count: int = 8
) -> dict[SequenceName, list[tuple[Neighbour, ...]]]:
    """The neighbours of each input token, by sequence; "written" is an output and has none.

    Raises:
        ConfigError: the model reads no tokens, or `count` is below 1.
    """
    return {
        name: nearest(token_embedding(forced.model, name).weight, ids, count)
        for name, ids in forced.sequences.items()
        if name != "written"
    }


@torch.no_grad()
def nearest(
    table: Float[Tensor, "vocab width"], ids: Sequence[int], count: int = 8
) -> list[tuple[Neighbour, ...]]:
    """The `count` other tokens (or all, if fewer) with the greatest cosine to each id, nearest first.

    The cosines of a zero embedding are 0.

    Raises:
        ConfigError: an id is none of the table's, or `count` is below 1.
    """
    refuse_other_count("count", count, "a token needs one neighbour or more; the default is 8")
    refuse_other_ids("ids", ids, len(table))
    if not ids:
        return []
    distinct, row_of_id = torch.tensor(ids, device=table.device).unique(return_inverse=True)
    directions = F.normalize(table.float(), dim=-1)
    cosines = directions[distinct] @ directions.T
    cosines.scatter_(1, distinct[:, None], -torch.inf)  # exclude the token itself
    values, nearest_ids = top_candidates(cosines, min(count, len(table) - 1))
    rows = [tuple(map(Neighbour, *row)) for row in zip(nearest_ids.tolist(), values.tolist(), strict=True)]
    return [rows[row] for row in row_of_id.tolist()]
