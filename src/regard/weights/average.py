"""Weight averaging: the mean of several checkpoints, and an exponential moving average."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from regard.errors import FolderError
from regard.weights.tensors import model_tensors
from regard.weights.verified_folder import VerifiedFolder

WEIGHTS, AVERAGE = "model.safetensors", "average.safetensors"  # files of a checkpoint
UPDATES = "updates"  # a tensor of AVERAGE: the number of updates in the average


def used_weights(
    checkpoint: VerifiedFolder, load: Callable[[str], Mapping[str, Tensor]] | None = None
) -> tuple[dict[str, Tensor], bool]:
    """The weights with which a checkpoint is validated and used; True if they are the moving average.

    They are the moving average if the run has one; adapters are merged in both. Averages of unmerged
    adapters, as development versions wrote them, are no model's weights: those of that step are used. `load`
    reads the tensors of a file; None reads all of them.
    """
    load = load or checkpoint.read_tensors
    weights = dict(load(WEIGHTS))
    if not checkpoint.has_tensors(AVERAGE):
        return weights, False
    average = dict(load(AVERAGE))
    average.pop(UPDATES, None)
    return (average, True) if average.keys() == weights.keys() else (weights, False)


def average_tensors(checkpoints: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each tensor, summed in float64 (Vaswani et al. 2017, section 6.1).

    Only one checkpoint is needed at a time, so `checkpoints` may be lazy. Tensors of other types than
    floating point must be equal in all checkpoints.

    Raises:
        FolderError: there is no checkpoint, or the checkpoints do not match.
    """
    first: Mapping[str, Tensor] = {}
    sums: dict[str, Tensor] = {}
    count = 0
    for count, tensors in enumerate(checkpoints, start=1):
        if count == 1:
            first, sums = (
                tensors,
                {name: tensor.to(torch.float64, copy=True) for name, tensor in tensors.items()},
            )
            continue
        _refuse_mismatch(first, tensors)
        for name, total in sums.items():
            if not first[name].is_floating_point() and not torch.equal(first[name], tensors[name]):
                raise FolderError(
                    f"{name!r} is not floating point and differs", "average checkpoints of one run only"
                )
            total += tensors[name]
    if not count:
        raise FolderError("there is no checkpoint to average", "train first, or give another run")
    return {
        name: (sums[name] / count).to(tensor.dtype) if tensor.is_floating_point() else tensor
        for name, tensor in first.items()
    }


class MovingAverage:
    """An exponential moving average of a model's weights.

    After each update, average <- decay * average + (1 - decay) * weights. With `warm_up` the decay of
    update t is at most (1 + t) / (10 + t), so that the random initial weights soon lose their influence.
    """

    def __init__(self, model: nn.Module, decay: float, *, warm_up: bool = True) -> None:
        self.decay, self.warm_up = decay, warm_up
        self._updates: int | Tensor = 0  # a tensor if only the device knows which updates count
        self._average = {name: tensor.clone() for name, tensor in model_tensors(model).items()}

    @property
    def updates(self) -> int:
        """The number of updates in the average."""
        return int(self._updates)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        """Adds the model's present weights to the average."""
        self._updates = self.updates + 1
        decay = min(self.decay, (1 + self._updates) / (10 + self._updates)) if self.warm_up else self.decay
        for name, weight in model_tensors(model).items():
            average = self._average[name]
            if average.is_floating_point():
                average.lerp_(weight, 1 - decay)
            else:
                average.copy_(weight)

    @torch.no_grad()
    def update_where(self, counts: Bool[Tensor, ""], model: nn.Module) -> None:
        """Adds the model's weights if `counts` is True. Its value is not read, so nothing waits for a GPU."""
        if not isinstance(self._updates, Tensor):
            self._updates = torch.full((), float(self._updates), dtype=torch.float64, device=counts.device)
        self._updates = self._updates + counts
        warm = (1 + self._updates) / (10 + self._updates)
        decay = warm.clamp(max=self.decay) if self.warm_up else torch.full_like(warm, self.decay)
        share = (1 - decay) * counts
        for name, weight in model_tensors(model).items():
            average = self._average[name]
            if average.is_floating_point():
                average.lerp_(weight, share.to(average.dtype))
            else:
                average.copy_(weight)

    @contextlib.contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """A context in which `model` has the averaged weights; its own are restored exactly afterwards."""
        weights = model_tensors(model)
        own = {name: weight.clone() for name, weight in weights.items()}
        _copy(self._average, weights)
        try:
            yield
        finally:
            _copy(own, weights)

    def tensors(self) -> dict[str, Tensor]:
        """The state of the average, for a checkpoint."""
        return {**self._average, UPDATES: torch.tensor(self.updates)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores the state that `tensors()` returned."""
        stored = dict(tensors)
        updates = stored.pop(UPDATES, None)
        _refuse_mismatch(self._average, stored)
        if updates is None or updates.numel() != 1:
            raise FolderError(f"the moving average lacks {UPDATES!r}", "use another checkpoint")
        self._updates = int(updates)
        _copy(stored, self._average)


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])


def _refuse_mismatch(first: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    """Raises a FolderError unless both have the same names and shapes."""
    hint = "only checkpoints of one run can be averaged"
    if unmatched := sorted(set(first) ^ set(other)):
        raise FolderError(f"{unmatched[0]!r} is in one set of weights and not in the other", hint)
    for name, tensor in first.items():
        if tensor.shape != other[name].shape:
            shapes = f"{list(tensor.shape)} in one set of weights, {list(other[name].shape)} in the other"
            raise FolderError(f"{name!r} is {shapes}", hint)
