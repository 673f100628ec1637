"""Decoding steps of a decoder-only model: over the whole text, or within a rolling window."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from regard.decoding.prefill import in_fixed_shape, prefill_by_layer
from regard.decoding.rolling_window import RollingWindow, TokenHistory
from regard.decoding.step import CacheStepper, Parts
from regard.fast.decoding_step import fast_step
from regard.fast.largest import CandidateTensors
from regard.fast.native.search import SearchState, StepsTaken
from regard.layers.cache import StackCache
from regard.models.decoder_only import DecoderOnly

STALE = -1


class PromptStepper(CacheStepper):
    """Decoding steps of a decoder-only model that attends to the whole text."""

    model: DecoderOnly
    steps_at_once = True

    def start(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> None:
        """Prefill the cache with the beginnings of the texts, all of one length, which may be 0."""
        self.begin(self.filled(src_ids), len(src_ids))

    def starts(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> Parts:
        """As `start`, in several parts if the model has a fast step."""
        self.begin(self.model.start(), len(src_ids))
        if self._fast is None:
            self.start(src_ids, src_lengths)
        else:
            cache = self.model.start()
            yield from prefill_by_layer(self.model, in_fixed_shape(src_ids).to(self.device), cache)
            self.cache = cache.select(torch.arange(len(src_ids), device=self.device))

    def filled(self, ids: Int64[Tensor, "rows len"], first: int = 0) -> StackCache:
        """A cache that has read these, which begin at position `first` of their texts."""
        # the `start` of a registered model may take no position
        cache = self.model.start(first) if first else self.model.start()
        if ids.size(1):
            self.model.states(in_fixed_shape(ids).to(self.device), cache=cache)
            cache.select(torch.arange(len(ids), device=self.device))
        return cache


class RollingStepper(PromptStepper):
    """Decoding steps of a decoder-only model within a rolling window (see `rolling_window.py`)."""

    steps_at_once = True
    _firsts: Int64[Tensor, " rows"]  # of each row in the cache; STALE: fill it again

    def __init__(self, model: DecoderOnly, window: RollingWindow) -> None:
        super().__init__(model)
        self.window = window
        self._history = TokenHistory(torch.tensor([[]], dtype=torch.int64))  # before a start

    @property
    def length(self) -> int:
        return self._history.length

    def start(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> None:
        self._history = TokenHistory(src_ids)
        self.begin(self.model.start(), len(src_ids))
        self._firsts = torch.full((len(src_ids),), STALE if src_ids.size(1) else 0)
        self._make_room()

    def starts(self, src_ids: Int64[Tensor, "rows src_len"], src_lengths: Int64[Tensor, " rows"]) -> Parts:
        if fast_step(self.model) is None:
            self.start(src_ids, src_lengths)
            return
        first = self.window.start(src_ids.size(1))
        yield from super().starts(src_ids[:, first:], src_lengths)
        self._history = TokenHistory(src_ids)
        self._firsts = torch.full((len(src_ids),), first)

    def logits(self, ids: Int64[Tensor, " rows"]) -> Float[Tensor, "rows vocab"]:
        self._make_room()
        self._history.append(ids[:, None])
        return super().logits(ids)

    def top_candidates(
        self, ids: Int64[Tensor, " rows"], size: int, asked: Int64[Tensor, " rows"]
    ) -> CandidateTensors:
        self._make_room()
        self._history.append(ids[:, None])
        return super().top_candidates(ids, size, asked)

    def run_steps(self, state: SearchState, steps: int) -> StepsTaken | None:
        """As many as all windows have room for."""
        self._make_room()
        room = self.window.size - int((self._history.lengths - self._firsts).max())
        if (taken := super().run_steps(state, min(steps, room))) is not None:
            self._history.select(taken.origins)
            self._firsts = self._firsts[taken.origins]
            self._history.append(torch.cat((state.last[taken.origins, None], taken.tokens), dim=1))
        return taken

    def select(self, rows: Int64[Tensor, " new_rows"]) -> None:
        self._history.select(rows)
        self._firsts = self._firsts[rows]
        super().select(rows)

    def join(self, other: CacheStepper) -> None:
        assert isinstance(other, RollingStepper)
        self._history.join(other._history)
        self._firsts = torch.cat((self._firsts, other._firsts))
        super().join(other)

    def read(self, ids: Int64[Tensor, "1 new"]) -> Float[Tensor, "new vocab"]:
        parts = []
        while ids.size(1):
            self._make_room()
            room = self.window.start(self.length) + self.window.size - self.length
            self._history.append(ids[:, :room])
            parts.append(super().read(ids[:, :room]))
            ids = ids[:, room:]
        return torch.cat(parts)

    def cut(self, length: int) -> None:
        self._history.cut(length)
        first = self.window.start(length)
        if bool((self._firsts == first).all()):  # else the window moves back, and is filled before it is read
            super().cut(length - first)

    def _make_room(self) -> None:
        """Move the windows that are full."""
        firsts = self.window.starts(self._history.lengths)
        moved = (firsts != self._firsts).nonzero()[:, 0]
        if not len(moved):
            return
        spans: list[list[int]] = torch.stack((firsts, self._history.lengths), 1)[moved].unique(dim=0).tolist()
        if len(moved) == len(firsts) and len(spans) == 1:
            first, end = spans[0]
            self.cache, self.rows = self.filled(self._history.of(moved, first, end), first), len(moved)
        else:
            self._refill(moved, spans)
        self._firsts = firsts

    def _refill(self, moved: Int64[Tensor, " moved"], spans: Sequence[Sequence[int]]) -> None:
        """Fill the cache of these rows again, whose windows have these spans; the others keep theirs."""
        assert self._fast is not None, "rows of other lengths join a fast step alone"
        lengths = self._history.lengths
        others = torch.ones(len(lengths), dtype=torch.bool).scatter(0, moved, False).nonzero()[:, 0]
        cache, order = self.stepped().select(others), [others]
        for first, length in spans:
            order.append(rows := moved[lengths[moved] == length])
            cache = cache.join(
                self._fast.slots(self.filled(self._history.of(rows, first, length)), len(rows))
            )
        self.cache = cache.select(torch.cat(order).argsort())


def prompt_stepper(model: DecoderOnly, max_context: int | None = None) -> PromptStepper:
    """The stepper of a model that reads at most `max_context` tokens.

    None: as many as the model was trained on; 0: all. Learned positions are an upper bound.
    """
    size = model.trained_length if max_context is None else max_context or model.max_length
    return PromptStepper(model) if size is None else RollingStepper(model, RollingWindow(size))
