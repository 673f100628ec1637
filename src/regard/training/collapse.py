"""Detects collapsed training, which is then retried from a good checkpoint at a lower learning rate."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor

from regard.data.batch import Batch, PairBatch, are_targets
from regard.data.process_share import EmptyShare
from regard.errors import RecipeError
from regard.recipe import check_types

DISTINCT = "distinct_outputs"  # a validation metric: distinct outputs per distinct reference, in percent
MIN_REFERENCES = 20  # distinct references that this metric needs
MIN_DISTINCT = 5.0  # percent: with fewer, outputs hardly depend on the inputs
STUCK_SHARE = (
    0.98  # a training loss above this share of the targets' entropy has learned only their frequencies
)
MIN_RISES = 3  # consecutive rises of the validation loss from the first validation on
MIN_SIGNS = 2  # consecutive validations with a sign of collapse before the run reacts
MIN_UPDATES = 5  # since the last validation: with fewer, the training loss is no sign of divergence
MIN_SKIPPED = 5  # updates skipped since the last validation: fewer are no sign of divergence
DIVERGED = 2.0  # a training loss has diverged if it is above this multiple of the first update's
MAX_TARGETS = 200_000  # targets from which the entropy is computed


@dataclass(frozen=True, kw_only=True)
class CollapseSettings:
    """The reaction to a collapse, which is checked at each validation.

    `retries`: how often the run goes back to its last good checkpoint, or to its start, and continues at half
    the learning rate; 0 only warns. `after`: updates before the first check. There is also no check before
    one and a half times the warm-up, or in the first quarter of the run, when the loss may not have moved.
    A training that diverges is noticed at any time.
    """

    retries: int = 2
    after: int = 500

    def __post_init__(self) -> None:
        check_types(self, "training.collapse")
        for name in ("retries", "after"):
            if getattr(self, name) < 0:
                raise RecipeError(
                    f"training.collapse.{name} must be 0 or more, not {getattr(self, name)}",
                    "retries = 0 only warns of a collapse",
                )

    def first_checked_step(self, max_steps: int, warmup: int) -> int:
        """The first update at which a run of `max_steps` is checked."""
        return math.ceil(max(self.after, 1.5 * warmup, max_steps / 4))


@dataclass(kw_only=True)
class CollapseDetector:
    """The state of the collapse detection, a part of the training state."""

    nll: float = 0.0  # of the training targets since the last validation
    tokens: int = 0
    updates: int = 0  # since the last validation, without those that were skipped
    skipped_updates: int = 0  # since the last validation: loss or gradient was not finite
    start: float | None = None  # the training loss of the first update
    first_step: int = 0  # the step of the first validation
    previous: float | None = None  # the training loss before the last validation
    early: float | None = None  # the training loss between the first and the second validation
    first: float | None = None  # the loss of the first validation
    last: float | None = None  # the loss of the last validation
    rises: int = 0  # consecutive rises of the loss from the first validation on; -1 after the first fall
    signs: int = 0  # consecutive validations with a sign of collapse
    good_step: int = 0  # the last validation at which the model was learning; 0 is the start
    found: list[dict[str, Any]] = field(default_factory=list)  # collapses so far, as in metrics.jsonl

    @property
    def retries(self) -> int:
        """The number of times that the run went back."""
        return sum(record["to"] is not None for record in self.found)

    @property
    def rate_factor(self) -> float:
        """The factor of the learning rate."""
        return 0.5**self.retries

    @property
    def is_over(self) -> bool:
        """True if a collapse was found after the last retry; no more are reported."""
        return len(self.found) > self.retries

    def count(self, nll: float, tokens: int) -> None:
        """Adds the loss of an update."""
        self.nll += nll
        self.tokens += tokens
        self.updates += 1
        if self.start is None:
            self.start = nll / tokens

    def count_skipped(self) -> None:
        """Counts an update that was skipped, because its loss or gradient was not finite."""
        self.skipped_updates += 1

    def add_validation(
        self,
        step: int,
        metrics: Mapping[str, float],
        *,
        entropy: float | None,
        checked: bool,
        best_step: int,
        is_last: bool = False,
        entropy_is_sign: bool = True,
    ) -> str | None:
        """Adds a validation; returns why the run has collapsed, or None.

        Args:
            metrics: empty in a run without validation.
            entropy: of the training targets, in nats; None if it is not known.
            checked: False while the run is too young to be checked for anything but divergence.
            best_step: of the best model so far; a model better than the first means there is no collapse.
            is_last: True at the end of the run, where one sign of divergence is enough.
            entropy_is_sign: False if a training loss at the entropy is no sign that nothing is learned: with
                a registered loss.
        """
        loss = metrics["loss"] if math.isfinite(metrics.get("loss", math.nan)) else None
        training = self.nll / self.tokens if self.tokens else None
        improved = loss is not None and self.last is not None and loss < self.last
        rose = training is not None and self.previous is not None and training > self.previous
        diverged = self._divergence(metrics, training, entropy, has_risen=rose and not improved)
        self.nll, self.tokens, self.updates, self.skipped_updates = 0.0, 0, 0, 0
        self._count_rises(step, loss, training)
        self.previous = training
        sign = diverged or _sign(metrics.get(DISTINCT), training, entropy if entropy_is_sign else None)
        better = loss is not None and self.first is not None and loss < self.first
        learned = not metrics and training is not None and entropy is not None  # of a run without validation
        if sign is None and (better or learned):
            self.good_step = step
        # once it has diverged, any other sign counts, however young the run is
        self.signs = self.signs + 1 if diverged or (sign and (checked or self.signs)) else 0
        if self.signs >= (1 if diverged and is_last and not improved else MIN_SIGNS):
            return sign
        # if the training loss falls meanwhile, the model overfits, which is not a collapse
        falls = training is None or self.early is None or training < self.early
        if self.rises >= MIN_RISES and checked and not falls and best_step <= self.first_step:
            return f"the validation loss has risen from the start, {self.rises} times in a row"
        return None

    def _divergence(
        self,
        metrics: Mapping[str, float],
        training: float | None,
        entropy: float | None,
        *,
        has_risen: bool,
    ) -> str | None:
        """The sign that training diverges, as text; None without one.

        Where the entropy is not known, the first update may have had easy targets: the loss must rise, too.
        """
        if self.skipped_updates >= max(MIN_SKIPPED, self.updates + 1):
            total = self.updates + self.skipped_updates
            return (
                f"{self.skipped_updates} of the last {total} updates were skipped, as their loss or gradient"
                " was not finite"
            )
        if math.isnan(metrics.get("loss", 0.0)):
            return "the validation loss is NaN"
        few = self.updates < MIN_UPDATES  # the losses of single batches differ
        if few or training is None or self.start is None:
            return None
        if entropy is None and (not has_risen or self.start <= 0):  # a density may be above 1
            return None
        if training > DIVERGED * max(self.start, entropy or 0.0):
            return (
                f"the training loss, {training:.2f}, is far above that of the first update ({self.start:.2f})"
            )
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
    """The sign of a collapse at one validation, as text; None without one."""
    if distinct is not None and distinct <= MIN_DISTINCT:
        return f"the outputs are nearly the same for all inputs ({distinct:.1f} % of the expected number)"
    if entropy is not None and training is not None and training >= STUCK_SHARE * entropy:
        return (
            f"the training loss, {training:.2f}, is that of a model that has learned only how frequent each"
            f" token is ({entropy:.2f})"
        )
    return None


def collapse_warning(record: Mapping[str, Any]) -> str:
    """A warning about the collapse of `record`, with advice, in one line."""
    what = f"training has collapsed at step {record['at']:,}: {record['why']}"
    if record["to"] is None:
        then = "it continues unchanged"
    else:
        place = f"goes back to step {record['to']:,}" if record["to"] else "starts again"
        then = f"it {place} and continues at half the learning rate (training.collapse.retries)"
    return (
        f"{what}; {then}. Try a lower training.schedule.learning_rate, a longer warm-up,"
        " training.clip_norm = 1.0 or model.norm_position = 'pre'"
    )


def distinct_outputs(outputs: Iterable[object], references: Iterable[object]) -> dict[str, float]:
    """The metric DISTINCT of a validation; empty if there are too few references."""
    count = len(set(references))
    return {DISTINCT: 100 * len(set(outputs)) / count} if count >= MIN_REFERENCES else {}


def target_entropy(batches: Iterable[Batch], max_targets: int = MAX_TARGETS) -> float | None:
    """The entropy in nats of at least `max_targets` targets of the first `batches`.

    It is the loss of a model that has learned only how frequent each target is. None if the targets are not
    whole numbers, such as probabilities of classes, or some are below 0.
    """
    counts = torch.zeros(0, dtype=torch.int64)
    for batch in batches:
        if isinstance(batch, EmptyShare):
            continue
        targets = _targets(batch)
        if targets.is_floating_point() or (targets < 0).any():
            return None
        found = torch.bincount(targets)
        longer, shorter = (found, counts) if len(found) > len(counts) else (counts, found)
        counts = longer.clone()
        counts[: len(shorter)] += shorter
        if int(counts.sum()) >= max_targets:
            break
    shares = counts[counts > 0].double() / counts.sum()
    return float(-(shares * shares.log()).sum())


def _targets(batch: Any) -> Shaped[Tensor, " targets"]:
    """The labels without padding and IGNORED, on the CPU."""
    labels = batch.labels.cpu()
    if isinstance(batch, PairBatch):
        places = torch.arange(labels.size(1))
        return labels[places < batch.tgt_lengths.cpu()[:, None] - 1]
    return labels[are_targets(labels)]
