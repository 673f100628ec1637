"""The two kinds of training work, each with its data and what is counted of it."""

from types import ModuleType
from typing import Any, Protocol, cast

from torch import Tensor


class Work(Protocol):
    """What a module of work offers."""

    ignored: int  # the label of places that count nothing

    def training_task(self, dropout: str, *, small: bool) -> Any: ...

    def labels(self, batch: Any) -> Tensor: ...

    def flop(self, config: Any, batch: Any) -> float:
        """Of the products of one training step."""
        ...

    def nll(self, model: Any, batch: Any) -> Tensor:
        """Of regard's model, the mean over the targets, without smoothing."""
        ...


def work_of(name: str) -> Work:
    from benchmarks.work import pairs, texts

    known: dict[str, ModuleType] = {"pairs": pairs, "texts": texts}
    return cast(Work, known[name])
