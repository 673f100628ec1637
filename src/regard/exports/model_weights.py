"""The weights of a model by name, of which an export must use each."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np
from torch import Tensor

from regard.errors import UserError

Array = np.ndarray


class ModelWeights:
    """The weights below a prefix. A name that was never asked for is an error at the end of `all_of`."""

    def __init__(self, tensors: dict[str, Tensor], prefix: str = "", unused: set[str] | None = None) -> None:
        self._tensors, self._prefix = tensors, prefix
        self._unused = set(tensors) if unused is None else unused

    @classmethod
    @contextmanager
    def all_of(cls, tensors: Mapping[str, Tensor]) -> Iterator["ModelWeights"]:
        """The weights of a model by name; at the end a UserError if one of them was not used."""
        weights = cls(dict(tensors))
        yield weights
        if weights._unused:
            raise UserError(
                f"{min(weights._unused)!r} has no place in this export",
                "export the model as it is trained: merge its adapters, and give no model with other parts",
            )

    def below(self, *names: str | int) -> "ModelWeights":
        """The weights below these names."""
        prefix = self._prefix + "".join(f"{name}." for name in names)
        return ModelWeights(self._tensors, prefix, self._unused)

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._tensors

    def tensor(self, name: str) -> Tensor:
        """The weight in float32, on the CPU."""
        full = self._prefix + name
        if full not in self._tensors:
            raise UserError(
                f"the model has no weight {full!r}", "export a model of regard, without other parts"
            )
        self._unused.discard(full)
        return self._tensors[full].detach().float().cpu()

    def array(self, name: str) -> Array:
        """As `tensor`, as a NumPy array of its own."""
        return self.tensor(name).contiguous().numpy().copy()
