"""The vectors of positions, for rows of which each is at another position."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.fast.native.plan import UnsupportedPart
from regard.layers.positions import RotaryPositions

MOST = 8192  # positions whose vectors are stored; those beyond are computed at each call


class PositionVectors:
    """Positions -> their vectors. Each is computed by itself, so that it has the same bits in any batch."""

    def __init__(self, vectors: Callable[[int, int], Float[Tensor, "len features"]]) -> None:
        """`vectors(first, count)` are the vectors of `count` positions from `first` on."""
        self._vectors = vectors
        self._known, self._table = 0, torch.empty(0, 0)

    def __call__(self, positions: Int64[Tensor, " rows"]) -> Float[Tensor, "rows features"]:
        most = int(positions.max()) + 1 if len(positions) else 0
        if most > MOST:
            return torch.cat([self._vectors(position, 1).detach() for position in positions.tolist()])
        while self._known < most:
            self._append(self._vectors(self._known, 1).detach())
        return self._table.index_select(0, positions)

    def _append(self, vector: Float[Tensor, "1 features"]) -> None:
        if self._known == len(self._table):
            more = vector.new_empty(max(32, self._known), vector.size(1))
            self._table = torch.cat((self._table, more)) if self._known else more
        self._table[self._known] = vector[0]
        self._known += 1


def rotary_vectors(blocks: nn.ModuleList) -> PositionVectors | None:
    """The sines of each position, and then its cosines; None if the blocks have no rotary positions.

    Raises:
        UnsupportedPart: the blocks have several, but a plan has one set of angles.
    """
    found = [each for each in blocks.modules() if isinstance(each, RotaryPositions)]
    if len({(each.base, each.d_head, each.scaling) for each in found}) > 1:
        raise UnsupportedPart("its layers have different rotary positions")
    return PositionVectors(_sines_and_cosines(found[0])) if found else None


def _sines_and_cosines(rotary: RotaryPositions) -> Callable[[int, int], Float[Tensor, "len two_d_head"]]:
    return lambda start, length: torch.cat(rotary.sines_and_cosines(start, length), dim=1)
