"""Which rows of a tensor a process has, as `fully_shard` divides them."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.distributed.group import Group


@dataclass(frozen=True, kw_only=True)
class RowRange:
    """The rows from `first` to before `last`; no process has more than `most`.

    All processes have the same number of rows, except for the last ones, which may have fewer or none.
    """

    first: int
    last: int
    most: int

    @classmethod
    def of(cls, shape: Sequence[int], group: Group) -> "RowRange":
        """The rows that this process has of a tensor of this shape."""
        most = -(-shape[0] // group.size)
        first = min(group.rank * most, shape[0])
        return cls(first=first, last=min(first + most, shape[0]), most=most)
