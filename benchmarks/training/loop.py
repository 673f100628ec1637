"""A plain training loop: batch, loss, gradients, Adam."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.training.steps import SEED
from benchmarks.work.work import work_of
from regard.distributed.group import SINGLE
from regard.models.build import build_model

HELD_OUT = 7_000_000  # the epoch whose first batch is used to compare losses; training never reaches it


class Loop(ABC):
    """A contender that trains `model` on the same batches as regard, in the same order.

    A subclass creates its model and computes its logits. The labels of a batch and the settings of the loss
    are those of the work.
    """

    same_weights = True  # False if the model cannot begin with regard's weights

    def __init__(self, *, work: str, dropout: str, threads: int, small: bool) -> None:
        torch.set_num_threads(threads)
        torch.manual_seed(SEED)
        self._work = work_of(work)
        self._task = self._work.training_task(dropout, small=small)
        self._batches = iter(self._task.loader(SINGLE))
        self.model = self.make(self._task.config, build_model(self._task.config, seed=SEED).state_dict())
        training = self._task.recipe.training
        self._smoothing, settings = training.label_smoothing, training.optimizer
        kind = torch.optim.Adam if settings.kind == "adam" else torch.optim.AdamW
        trained = [each for each in self.model.parameters() if each.requires_grad]
        self._optimizer = kind(
            [
                {
                    "params": [each for each in trained if each.ndim > 1],
                    "weight_decay": settings.weight_decay,
                },
                {"params": [each for each in trained if each.ndim <= 1], "weight_decay": 0.0},
            ],
            lr=training.schedule.given_or_default_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
        )
        self._clip_norm = training.clip_norm

    @abstractmethod
    def make(self, config: Any, weights: dict[str, Tensor]) -> nn.Module:
        """The contender's model, with these weights of regard if they fit."""

    @abstractmethod
    def logits(self, batch: Any) -> Tensor:
        """The logits at each position of the batch, padding included."""

    def round(self, updates: int) -> dict[str, Any]:
        batches = [next(self._batches) for _ in range(updates)]
        return self._counts(batches, self._timed(batches))

    def _timed(self, batches: list[Any]) -> list[float]:
        """Train on these batches; returns the seconds of each update."""
        self.model.train()
        seconds = []
        for batch in batches:
            began = time.perf_counter()
            self._update(batch)
            seconds.append(time.perf_counter() - began)
        return seconds

    def _counts(self, batches: list[Any], seconds: list[float]) -> dict[str, Any]:
        return {
            "seconds": sum(seconds),
            "tokens": sum(batch.num_targets for batch in batches),
            "gflop": sum(self._work.flop(self._task.config, batch) for batch in batches) / 1e9,
            "each": seconds,
        }

    def about(self) -> dict[str, Any]:
        parameters = {id(each): each.numel() for each in self.model.parameters() if each.requires_grad}
        return {"parameters": sum(parameters.values()), "same_weights": self.same_weights}

    def loss(self) -> float:
        return held_out_loss(self._task, self.model, lambda batch: self._loss(batch, smoothing=0.0))

    def _update(self, batch: Any) -> None:
        self._optimizer.zero_grad(set_to_none=True)
        self._loss(batch, self._smoothing).backward()
        if self._clip_norm:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self._clip_norm)
        self._optimizer.step()

    def _loss(self, batch: Any, smoothing: float) -> Tensor:
        labels = self._work.labels(batch)
        return F.cross_entropy(
            self.logits(batch).flatten(0, 1),
            labels.flatten(),
            ignore_index=self._work.ignored,
            label_smoothing=smoothing,
        )


def held_out_loss(task: Any, model: nn.Module, of: Callable[[Any], Tensor]) -> float:
    """The loss of a batch without dropout and smoothing, in nats a token; all contenders use this batch."""
    batch = next(task.loader(SINGLE).epoch(HELD_OUT))
    training = model.training
    model.eval()
    with torch.no_grad():
        found = float(of(batch))
    model.train(training)
    return found
