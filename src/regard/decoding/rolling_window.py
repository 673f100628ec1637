"""A rolling context window: a model that was trained on short blocks generates texts of any length.

A language model reads at most as many tokens as it was trained on. When its cache is full, a new cache is
filled with the later half of the window. nanoGPT crops its context in the same way, but for each token, not
once per half window. Positions are counted from the beginning of the window.

A cache that drops its oldest entries one by one would be cheaper. But its keys and values would still depend
on dropped tokens in all layers but the first, which never happened in training.

Where a window begins depends only on the position, not on the prompt or the batch.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.errors import ConfigError


@dataclass(frozen=True)
class RollingWindow:
    """The context of each token: at most `size` tokens, itself included, and more than `size // 2`.

    Only at the beginning of a text it is shorter.

    Raises:
        ConfigError: `size` is below 1.
    """

    size: int

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ConfigError(
                f"a context of {self.size} tokens has no room for a token",
                "max_context is 1 or more; 0 reads all tokens",
            )

    @property
    def stride(self) -> int:
        """How many tokens the window moves at a time."""
        return self.size - self.size // 2

    def start(self, position: int) -> int:
        """The position of the first token in the context of the one at `position`, both counted from 0.

        The smallest multiple of `stride` from which at most `size` tokens reach to `position`.
        """
        return max(0, -(-(position + 1 - self.size) // self.stride)) * self.stride

    def starts(self, positions: Int64[Tensor, " rows"]) -> Int64[Tensor, " rows"]:
        """`start` of each of these positions."""
        return (-(-(positions + 1 - self.size) // self.stride)).clamp(min=0) * self.stride


class TokenHistory:
    """The tokens that each row has read, on the host: the cache is filled from them when its window moves.

    Args:
        ids: the first tokens of the rows, all of one length.
    """

    def __init__(self, ids: Int64[Tensor, "rows len"]) -> None:
        self._buffer = ids
        self.lengths: Int64[Tensor, " rows"] = torch.full((len(ids),), ids.size(1))

    @property
    def length(self) -> int:
        """The greatest length of a row."""
        return int(self.lengths.max())

    def append(self, ids: Int64[Tensor, "rows new"]) -> None:
        """Append these to each row; the buffer more than doubles when it is full."""
        end = self.length + ids.size(1)
        if end > self._buffer.size(1):
            self._buffer = _widened(self._buffer, end + self._buffer.size(1))
        self._buffer.scatter_(1, self.lengths[:, None] + torch.arange(ids.size(1)), ids)
        self.lengths = self.lengths + ids.size(1)

    def of(self, rows: Int64[Tensor, " some"], start: int, end: int) -> Int64[Tensor, "some len"]:
        """The tokens of these rows at positions `start` to `end - 1`."""
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
