"""A rolling context window: a model that was trained on short blocks generates texts of any length.

A language model reads as many tokens as it was trained on. When its cache is full, a new one is filled with
the later half of the window: nanoGPT crops its context like this at each token, here it is once in half a
window. So keys and values hold nothing of earlier tokens, as those of a sliding cache do in all layers but
the first, and positions are counted from the beginning of the window.

Where a window begins depends on the position alone, and not on the prompt or on the batch.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor


@dataclass(frozen=True)
class RollingWindow:
    """The context of each token: at most `size` tokens, itself included, and more than half of that."""

    size: int

    @property
    def stride(self) -> int:
        """How many tokens the window moves at a time."""
        return self.size - self.size // 2

    def start(self, position: int) -> int:
        """The first token in the context of the one at `position`, both counted from 0."""
        return max(0, -(-(position + 1 - self.size) // self.stride)) * self.stride


class TokenHistory:
    """The tokens that each row has read, to fill the cache again when the window moves."""

    def __init__(self, ids: Int64[Tensor, "rows len"]) -> None:
        self._buffer, self.length = ids, ids.size(1)

    def append(self, ids: Int64[Tensor, "rows new"]) -> None:
        """Append these; the buffer doubles when it is full."""
        end = self.length + ids.size(1)
        if end > self._buffer.size(1):
            buffer = self._buffer.new_empty(len(self._buffer), max(end, 2 * self._buffer.size(1), 16))
            buffer[:, : self.length] = self._buffer[:, : self.length]
            self._buffer = buffer
        self._buffer[:, self.length : end] = ids
        self.length = end

    def since(self, start: int) -> Int64[Tensor, "rows len"]:
        """The tokens from the position `start` on."""
        return self._buffer[:, start : self.length]

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        """Make row i a copy of row `rows[i]`."""
        if not torch.equal(rows, torch.arange(len(self._buffer))):
            self._buffer = self._buffer.index_select(0, rows)

    def cut(self, length: int) -> None:
        """Forget all but the first `length` tokens."""
        self.length = length
