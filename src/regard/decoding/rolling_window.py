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

    def starts(self, positions: Int64[Tensor, " rows"]) -> Int64[Tensor, " rows"]:
        """As `start`, of each of these."""
        return (-(-(positions + 1 - self.size) // self.stride)).clamp(min=0) * self.stride


class TokenHistory:
    """The tokens that each row has read, to fill the cache again when its window moves."""

    def __init__(self, ids: Int64[Tensor, "rows len"]) -> None:
        self._buffer = ids
        self.lengths: Int64[Tensor, " rows"] = torch.full((len(ids),), ids.size(1))

    @property
    def length(self) -> int:
        """The greatest length of a row."""
        return int(self.lengths.max()) if len(self.lengths) else 0

    def append(self, ids: Int64[Tensor, "rows new"]) -> None:
        """Append these; the buffer doubles when it is full."""
        end = self.length + ids.size(1)
        if end > self._buffer.size(1):
            self._buffer = _widened(self._buffer, max(end, 2 * self._buffer.size(1), 16))
        self._buffer.scatter_(1, self.lengths[:, None] + torch.arange(ids.size(1)), ids)
        self.lengths = self.lengths + ids.size(1)

    def of(self, rows: Int64[Tensor, " some"], start: int, end: int) -> Int64[Tensor, "some len"]:
        """The tokens of these rows from the position `start` to before `end`."""
        return self._buffer[rows, start:end]

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        """Make row i a copy of row `rows[i]`."""
        if not torch.equal(rows, torch.arange(len(self._buffer))):
            self._buffer, self.lengths = self._buffer.index_select(0, rows), self.lengths[rows]

    def join(self, other: "TokenHistory") -> None:
        """Append the rows of `other`."""
        width = max(self._buffer.size(1), other._buffer.size(1))
        self._buffer = torch.cat([_widened(each._buffer, width) for each in (self, other)])
        self.lengths = torch.cat((self.lengths, other.lengths))

    def cut(self, length: int) -> None:
        """Forget all but the first `length` tokens of each row."""
        self.lengths = torch.full_like(self.lengths, length)


def _widened(buffer: Int64[Tensor, "rows width"], width: int) -> Int64[Tensor, "rows {width}"]:
    return torch.nn.functional.pad(buffer, (0, width - buffer.size(1)))
