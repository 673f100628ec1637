"""Collapse: training that has stopped learning is noticed, to go back and try a lower rate."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.data.batch import IGNORED, Batch, PairBatch
from regard.data.process_share import EmptyShare
from regard.errors import RecipeError

DISTINCT = "distinct_outputs"  # of a validation: distinct outputs per distinct reference, in percent
ENOUGH = 20  # distinct references, below which nothing is said of the outputs
FEW = 5.0  # percent of them: outputs that hardly depend on the inputs
STUCK = 0.98  # of the entropy of the targets: a training loss that has learned their frequencies and no more
RISES = 3  # validation losses in a row, from the first on, each of them higher than the one before
IN_A_ROW = 2  # validations at which the same trouble is seen before anything is done
TARGETS = 200_000  # that the entropy is computed of


@dataclass(frozen=True, kw_only=True)
class CollapseSettings:
    """What happens when a run has collapsed, which is looked for at each validation.

    `retries`: so often the run goes back to its last good checkpoint, or to its beginning, and continues at
    half the rate; 0 only warns. `after`: updates before which nothing is judged. Nor is it before one and a
    half times the warm-up, nor in the first quarter of the run: a loss that has not moved yet is no collapse.
    """

    retries: int = 2
    after: int = 500

    def __post_init__(self) -> None:
        for name in ("retries", "after"):
            if getattr(self, name) < 0:
                raise RecipeError(
                    f"training.collapse.{name} must be 0 or more, not {getattr(self, name)}",
                    "retries = 0 only warns of a collapse",
                )

    def judged_from(self, max_steps: int, warmup: int) -> int:
        """The first update at which a run of `max_steps` is judged."""
        return math.ceil(max(self.after, 1.5 * warmup, max_steps / 4))


@dataclass(kw_only=True)
class Watch:
    """What is remembered from one validation to the next: plain data, a part of the training state."""

    nll: float = 0.0  # of the training targets since the last validation
    tokens: int = 0
    first_step: int = 0  # of the first validation
    early: float | None = None  # the training loss between the first validation and the second
    first: float | None = None  # its loss
    last: float | None = None  # that of the last validation
    rises: int = 0  # how often it has risen from the first validation on; -1 once it has not
    signs: int = 0  # validations in a row at which the run looked collapsed
    good_step: int = 0  # of the last validation at which the model was learning; 0 is the beginning
    found: list[dict[str, Any]] = field(default_factory=list)  # collapses so far, as metrics.jsonl has them

    @property
    def retries(self) -> int:
        """How often the run went back."""
        return sum(record["to"] is not None for record in self.found)

    @property
    def rate_factor(self) -> float:
        """What the learning rate is multiplied by."""
        return 0.5**self.retries

    @property
    def is_over(self) -> bool:
        """True if a collapse was found about which nothing more is done."""
        return len(self.found) > self.retries

    def count(self, nll: float, tokens: int) -> None:
        """Take note of an update."""
        self.nll += nll
        self.tokens += tokens

    def see(
        self, step: int, metrics: Mapping[str, float], *, entropy: float | None, judged: bool, best_step: int
    ) -> str | None:
        """Take note of a validation; what is wrong with the run, in words, or None.

        Args:
            entropy: of the training targets, in nats; None where the loss cannot be compared with it.
            judged: False while the run is too young to be judged.
            best_step: of the best model so far. One that is better than the first is no sign of a collapse.
        """
        loss = metrics["loss"] if math.isfinite(metrics.get("loss", math.nan)) else None
        training = self.nll / self.tokens if self.tokens else None
        self.nll, self.tokens = 0.0, 0
        self._count_rises(step, loss, training)
        sign = _sign(metrics.get(DISTINCT), training, entropy)
        if sign is None and loss is not None and self.first is not None and loss < self.first:
            self.good_step = step
        self.signs = self.signs + 1 if sign and judged else 0
        if self.signs >= IN_A_ROW:
            return sign
        # a training loss that falls meanwhile is that of a model which learns by heart: no collapse
        falls = training is None or self.early is None or training < self.early
        if self.rises >= RISES and judged and not falls and best_step <= self.first_step:
            return f"the validation loss has risen from the start, {self.rises} times in a row"
        return None

    def _count_rises(self, step: int, loss: float | None, training: float | None) -> None:
        if not self.first_step:
            self.first_step, self.first = step, loss
        elif self.rises >= 0:
            self.early = training if self.early is None else self.early
            rose = loss is not None and self.last is not None and loss > self.last
            self.rises = self.rises + 1 if rose else -1
        self.last = loss


def _sign(distinct: float | None, training: float | None, entropy: float | None) -> str | None:
    """What looks like a collapse at one validation, in words."""
    if distinct is not None and distinct <= FEW:
        return f"the outputs are nearly the same for all inputs ({distinct:.1f} % as many as there should be)"
    if entropy is not None and training is not None and training >= STUCK * entropy:
        return (
            f"the training loss, {training:.2f}, is that of a model that knows how frequent each token is"
            f" and nothing else ({entropy:.2f})"
        )
    return None


def collapse_warning(record: Mapping[str, Any]) -> str:
    """What the record of a collapse means and what to try, in one line."""
    what = f"training has collapsed at step {record['at']:,}: {record['why']}"
    if record["to"] is None:
        then = "it goes on as it is"
    else:
        place = f"goes back to step {record['to']:,}" if record["to"] else "begins again"
        then = f"it {place} and continues at half the learning rate (training.collapse.retries)"
    return (
        f"{what}; {then}. Try a lower training.schedule.learning_rate, a longer warm-up,"
        " training.clip_norm = 1.0 or model.norm_position = 'pre'"
    )


def distinct_outputs(outputs: Iterable[object], references: Iterable[object]) -> dict[str, float]:
    """DISTINCT of a validation; nothing where there are too few references to tell."""
    count = len(set(references))
    return {DISTINCT: 100 * len(set(outputs)) / count} if count >= ENOUGH else {}


def target_entropy(batches: Iterable[Batch], most: int = TARGETS) -> float:
    """The entropy of the targets of the first `batches`, `most` of them or a few more, in nats.

    It is the loss of a model that has learned how frequent each target is, and nothing else.
    """
    counts, seen = torch.zeros(0, dtype=torch.int64), 0
    for batch in batches:
        if isinstance(batch, EmptyShare):
            continue
        found = torch.bincount(_targets(batch))
        longer, shorter = (found, counts) if len(found) > len(counts) else (counts, found)
        counts = longer.clone()
        counts[: len(shorter)] += shorter
        seen = int(counts.sum())
        if seen >= most:
            break
    shares = counts[counts > 0].double() / max(seen, 1)
    return float(-(shares * shares.log()).sum())


def _targets(batch: Any) -> Int64[Tensor, " targets"]:
    """The labels that count."""
    if isinstance(batch, PairBatch):
        places = torch.arange(batch.labels.size(1))
        return batch.labels[places < batch.tgt_lengths[:, None] - 1]
    return batch.labels[batch.labels != IGNORED]
