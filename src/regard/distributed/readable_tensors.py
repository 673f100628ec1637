"""The interface of saved tensors, of which each process reads its part."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class ReadableTensors(Protocol):
    """Tensors in files, of which any rows can be read."""

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of each tensor."""
        ...

    def read(self, name: str) -> Tensor:
        """A whole tensor."""
        ...

    def read_rows(self, name: str, first: int, last: int) -> Tensor:
        """The rows from `first` to before `last` of a tensor."""
        ...
