"""The first updates of a registered optimiser: do they change a weight?"""

from collections.abc import Sequence

import torch
from torch import Tensor

from regard.errors import RecipeError

TRIED = 10  # updates: an optimiser may change weights at every few updates alone


class FirstSteps:
    """Compares the weights before and after each of some updates, by their sums.

    Sharded weights are not compared: a process may have no row of them.
    """

    def __init__(self, name: str, weights: Sequence[Tensor]) -> None:
        self.name, self.weights = name, weights
        self._left = 0 if any(hasattr(each, "placements") for each in weights) else TRIED
        self._before: list[float] = []

    def before(self, *_: object) -> None:
        """Called before an update."""
        if self._left:
            self._before = self._sums()

    def after(self, *_: object) -> None:
        """Raise a RecipeError if no weight has changed after some updates with a gradient."""
        if not self._left or not any(
            each.grad is not None and bool(each.grad.any()) for each in self.weights
        ):
            return
        has_changed = self._sums() != self._before
        self._left = 0 if has_changed else self._left - 1
        if not has_changed and not self._left:
            raise RecipeError(
                f"the optimiser {self.name!r} has changed no weight in {TRIED} updates",
                "step changes weights in place: weight.sub_(...), or weight -= ..., under torch.no_grad()",
            )

    @torch.no_grad()
    def _sums(self) -> list[float]:
        """Two numbers for each weight that change with it; by sums, as copies would need memory."""
        sums = [each.double().abs().sum() for each in self.weights]
        return torch.stack([*sums, *(each.double().sum() for each in self.weights)]).tolist()
