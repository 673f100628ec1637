"""The kinds of training work: their data, operations and losses."""

from types import ModuleType
from typing import Any, Protocol, cast

from torch import Tensor


class Work(Protocol):
    """The interface of a module of work."""

    ignored: int  # the label of positions that do not count

    def training_task(self, dropout: str, *, small: bool) -> Any: ...

    def labels(self, batch: Any) -> Tensor: ...

    def flop(self, config: Any, batch: Any) -> float:
        """The operations of the products of one training step."""
        ...

    def nll(self, model: Any, batch: Any) -> Tensor:
        """The mean negative log-likelihood of the targets by regard's model, without smoothing."""
        ...


def work_of(name: str) -> Work:
    from benchmarks.work import base_pairs, pairs, texts

    known: dict[str, ModuleType] = {"pairs": pairs, "base_pairs": base_pairs, "texts": texts}
    return cast(Work, known[name])
