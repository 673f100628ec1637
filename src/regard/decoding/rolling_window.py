"""A rolling window: a model that was trained on short blocks generates texts of any length.

A language model sees as many tokens as it was trained on, and no more. When its cache is full, a new one is
filled with the later half of the window and grows again: as nanoGPT crops its context, but once in half a
window and not at each token. So keys and values hold nothing of earlier tokens, as those of a sliding cache
would in all layers but the first, and positions are counted from where the window begins.

Where a window begins depends on the position alone, and not on the prompt or on the batch.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor


@dataclass(frozen=True)
class RollingWindow:
    """Which tokens are seen with each token: at most `size`, itself counted, and more than half as many."""

    size: int

    @property
    def stride(self) -> int:
        """How many tokens the window moves at a time."""
        return self.size - self.size // 2

    def start(self, position: int) -> int:
        """The first token that is seen with the one at `position`, both counted from 0."""
        return max(0, -(-(position + 1 - self.size) // self.stride)) * self.stride


class TokenHistory:
    """The tokens that each row has read, to be read again when the window moves."""

    def __init__(self, ids: Int64[Tensor, "rows len"]) -> None:
        self._room, self.length = ids, ids.size(1)

    def append(self, ids: Int64[Tensor, "rows new"]) -> None:
        """Keep these after the earlier ones; the room doubles when it is full."""
        end = self.length + ids.size(1)
        if end > self._room.size(1):
            room = self._room.new_empty(len(self._room), max(end, 2 * self._room.size(1), 16))
            room[:, : self.length] = self._room[:, : self.length]
            self._room = room
        self._room[:, self.length : end] = ids
        self.length = end

    def since(self, start: int) -> Int64[Tensor, "rows len"]:
        """The tokens from the position `start` on."""
        return self._room[:, start : self.length]

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        """Row i becomes what row `rows[i]` was."""
        if not torch.equal(rows, torch.arange(len(self._room))):
            self._room = self._room.index_select(0, rows)

    def cut(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        self.length = length
