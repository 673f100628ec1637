"""One step of decoding: the last tokens go in, log-probabilities of the next come out.

A search knows a `Stepper` and nothing of models. Rows are hypotheses; a search keeps, drops,
repeats and reorders them with `select`, and the keys and values already computed follow.
"""

import math
from collections.abc import Generator, Sequence
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.errors import ConfigError
from regard.fast.decoding_step import DecodingStep, FastStep, fast_step
from regard.fast.largest import CandidateTensors
from regard.fast.native.search import SearchState, StepsTaken
from regard.fast.slot_cache import SlotCache
from regard.models.sequence_to_sequence import SequenceToSequence

# Rows of x @ W are equal to the bit in any number that is a multiple of this: 8 rows differ from 16 (MKL with
# AVX-512, 256 features and more; with AVX2 all counts from 4 were equal, 1 and 2 threads, widths 64 to 2048,
# vocabularies to 32,000). In the fast step of a CPU a row has the same bits in any number of them.
ROW_MULTIPLE = 16
Parts = Generator[None, None, None]
_OF_A_STEP = ("top_candidates", "logits", "select", "stepped")  # methods that a step calls


@runtime_checkable
class Stepper(Protocol):
    """What a search asks of a model, or of several. Ids and rows come from the host."""

    def start(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> None:
        """Read the sources; from here on there is a row for each."""
        ...

    def step(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """Append a token to each row; the log-probabilities of what follows, the caller's to change."""
        ...

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        """Row i becomes what row `rows[i]` was."""
        ...


@runtime_checkable
class LogitStepper(Stepper, Protocol):
    """One that knows logits: log-probabilities before they were normalised."""

    def logits(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        """As `step`, which this stands for."""
        ...


@runtime_checkable
class RankingStepper(Stepper, Protocol):
    """One that may find the most likely tokens without computing the log-probabilities of all."""

    @property
    def has_top_candidates(self) -> bool:
        """True if it can."""
        ...

    def top_candidates(
        self, ids: Int64[Tensor, " rows"], size: int, asked: Int64[Tensor, " rows"]
    ) -> CandidateTensors:
        """In place of `step`: the `size` greatest log-probabilities, their ids, and that of the id `asked`.

        In descending order; of equal ones that with the lower id comes first.
        """
        ...


@runtime_checkable
class SearchingStepper(RankingStepper, Protocol):
    """One that may continue a search by several steps at once."""

    def run_steps(self, state: SearchState, steps: int) -> StepsTaken | None:
        """At most `steps` steps, as long as no caller is needed; None if it cannot, and has read nothing.

        Rows become what they continue; it has then read what the search had at first, and what it gained.
        """
        ...


@runtime_checkable
class RewindableStepper(Protocol):
    """One that reads several tokens at once, and takes them back. It has a single row."""

    @property
    def length(self) -> int:
        """How many tokens of the target it has read."""
        ...

    def start(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> None: ...

    def read(self, ids: Int64[Tensor, "1 new"]) -> Float[Tensor, "new vocab"]:
        """Append these tokens; the logits of what follows each."""
        ...

    def cut(self, length: int) -> None:
        """Take back all but the first `length` tokens."""
        ...


class CacheStepper:
    """Steps and readings of one model with its cache, on the model's device.

    Steps are fast ones where the model has a fast step, which has a cache of its own kind: once there have
    been steps, the model does not read with the cache any more. A number of rows that is a multiple of
    `multiple` gives each row the same bits in any batch.
    """

    cache: Any = None
    # True if this class, not a subclass, may take several steps at once
    steps_at_once: ClassVar[bool]

    def __init__(self, model: Any) -> None:
        self.model = model
        self.rows = 0  # before the first step; a cache counts them from then on
        self.device: torch.device = model.device
        self._fast: FastStep | None = None

    @property
    def length(self) -> int:
        return 0 if self.cache is None else self.cache.length

    @property
    def multiple(self) -> int:
        return ROW_MULTIPLE if self._fast is None else 1

    @property
    def pads(self) -> bool:
        """True if memory is taken for each row as for the longest."""
        return self._fast is None or self._fast.pads

    def can_join(self, other: Stepper) -> bool:
        """True if the rows of `other` can join, whatever their lengths: both have the same fast step."""
        return (
            self._fast is not None
            and type(self) is type(other)
            and isinstance(other, CacheStepper)
            and other._fast is self._fast
        )

    def begin(self, cache: Any, rows: int) -> None:
        """Continue from `cache`, which has `rows` rows."""
        self.cache, self._fast, self.rows = cache, fast_step(self.model), rows

    def plain(self) -> Any:
        """The cache to read with."""
        return self.cache

    def stepped(self) -> Any:
        """The cache to step with."""
        if self._fast is not None:
            self.cache = self._fast.slots(self.plain(), self.rows)
        return self.plain()

    def step(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        return self.logits(ids).log_softmax(dim=1)

    def logits(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        cache = self.stepped()
        if self._fast is not None:
            return self._fast(ids, cache).float()
        return self.model.extend(ids[:, None].to(self.device), cache)[:, -1].float()

    @property
    def has_top_candidates(self) -> bool:
        return self._fast is not None and self._fast.has_top_candidates

    def top_candidates(
        self, ids: Int64[Tensor, " rows"], size: int, asked: Int64[Tensor, " rows"]
    ) -> CandidateTensors:
        assert self._fast is not None
        return self._fast.top_candidates(ids, self.stepped(), size, asked)

    def run_steps(self, state: SearchState, steps: int) -> StepsTaken | None:
        # a subclass, or a method of this object alone, may do more in each step
        is_plain = vars(type(self)).get("steps_at_once", False) and vars(self).keys().isdisjoint(_OF_A_STEP)
        if not isinstance(self._fast, DecodingStep) or not is_plain:
            return None
        cache = self.stepped()
        assert isinstance(cache, SlotCache)
        return self._fast.run_steps(state, cache, steps)

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        cache = self.stepped()
        self.cache = cache.select(rows if self._fast is not None else rows.to(self.device))

    def join(self, other: "CacheStepper") -> None:
        """Append the rows of `other`, which `can_join` and must not be used any more."""
        self.cache = self.stepped().join(other.stepped())

    def read(self, ids: Int64[Tensor, "1 new"]) -> Float[Tensor, "new vocab"]:
        return self.model.extend(ids.to(self.device), self.plain())[0].float()

    def cut(self, length: int) -> None:
        try:
            self.plain().cut(length)
        except (AttributeError, ValueError):
            raise ConfigError(
                "this model cannot take back what it has read, so nothing can be guessed for it",
                "leave out prompt_lookup and draft_model",
            ) from None


class ModelStepper(CacheStepper):
    """Steps of a model that has a source.

    Where that can be read in two ways, it is when it is known whether steps or readings follow.
    """

    model: SequenceToSequence
    steps_at_once = True

    def start(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> None:
        self._sources = src_ids.to(self.device), src_lengths.to(self.device)
        self.begin(None, len(src_ids))
        if self._fast is None or self._fast.start is None:
            self.plain()

    def starts(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> Parts:
        """As `start`, in several parts if that is possible."""
        self.start(src_ids, src_lengths)
        if self.cache is None and self._fast is not None and self._fast.start is not None:
            self.cache = yield from self._fast.start.by_layer(*self._sources)

    def plain(self) -> Any:
        if self.cache is None:
            self.cache = self.model.start(self.model.encode(*self._sources))
        return self.cache

    def stepped(self) -> Any:
        if self.cache is None and self._fast is not None and self._fast.start is not None:
            self.cache = self._fast.start(*self._sources)
        return super().stepped()


class EnsembleStepper:
    """Several models that share their vocabularies; the mean of their probabilities."""

    def __init__(self, steppers: Sequence[Stepper]) -> None:
        if not steppers:
            raise ConfigError("an ensemble needs at least one model")
        self.steppers = list(steppers)

    @property
    def multiple(self) -> int:
        return max(map(multiple_of, self.steppers))

    def start(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> None:
        for stepper in self.steppers:
            stepper.start(src_ids, src_lengths)

    def step(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        return mean_log_probs([stepper.step(ids) for stepper in self.steppers])

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        for stepper in self.steppers:
            stepper.select(rows)


def mean_log_probs(log_probs: Sequence[Float[Tensor, "*shape vocab"]]) -> Float[Tensor, "*shape vocab"]:
    """Log of the mean of the probabilities."""
    if len({each.size(-1) for each in log_probs}) > 1:
        sizes = ", ".join(str(each.size(-1)) for each in log_probs)
        raise ConfigError(
            f"the models of an ensemble must share one target vocabulary; theirs have {sizes} tokens",
            "train them with the same tokenisers",
        )
    return torch.stack(list(log_probs)).logsumexp(dim=0) - math.log(len(log_probs))


def multiple_of(stepper: Stepper) -> int:
    """The number of which each number of rows must be a multiple."""
    return getattr(stepper, "multiple", ROW_MULTIPLE)


def stepper_of(models: Sequence[SequenceToSequence]) -> Stepper:
    """The stepper of one model, or of an ensemble."""
    steppers = [ModelStepper(model) for model in models]
    return steppers[0] if len(steppers) == 1 else EnsembleStepper(steppers)
