"""Unfinished hypotheses and their rows in the stepper's batch.

Float32 products change in their last bits with the number of rows, so that number is kept a multiple of the
stepper's; spare rows are ignored. A hypothesis stays in its parent's row if it can; a second child takes a
free row, one of the same sentence if there is any, so that little of the cache has to move.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from regard.decoding.alternatives import Alternatives, RankedTokens
from regard.decoding.step import LogitStepper, RankingStepper, SearchingStepper, Stepper, multiple_of
from regard.fast.largest import CandidateTensors
from regard.fast.native.search import StepsTaken

CandidateArrays = tuple[
    Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"], Float64[np.ndarray, " rows"]
]
SPARE = -1
MOST_PAUSE = 7  # steps


class TakenToken(NamedTuple):
    """A token of a row, its log-probability, and the most probable tokens at its step, if recorded."""

    token: int
    log_prob: float
    alternatives: RankedTokens


def as_arrays(found: CandidateTensors) -> CandidateArrays:
    values, ids, asked_log_probs = found
    return values.double().numpy(), ids.numpy(), asked_log_probs.double().numpy()


def round_up(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


class HypothesisRows:
    """The hypotheses of a batch; a row may be free. Rows of one sentence have the same length.

    A search that starts with all of its sentences has rows of one length. In a batch that sentences join
    (`running_batch.py`) `length` is the greatest, and tokens after the length of a row have no meaning.
    """

    alternatives: Alternatives | None = None  # if they are recorded

    def __init__(
        self, stepper: Stepper, sentences: int, begun: Int64[np.ndarray, "sentences length"] | None = None
    ) -> None:
        """`begun`: the first tokens of the hypotheses, whose probability counts as 1."""
        self.stepper, self._multiple = stepper, multiple_of(stepper)
        self._ranking = (
            stepper if isinstance(stepper, RankingStepper) and stepper.has_top_candidates else None
        )
        # the stepper, if it may take several steps at once; after calls that took none it is asked less often
        self.searching = self._ranking if isinstance(self._ranking, SearchingStepper) else None
        self._pause = self._paused = 0  # steps for which it is not asked, and how many of them are left
        self.sentence: Int64[np.ndarray, " rows"] = np.arange(sentences)  # SPARE where a row is free
        self.rank: Int64[np.ndarray, " rows"] = np.zeros(sentences, np.int64)  # among those of its sentence
        self.log_prob: Float64[np.ndarray, " rows"] = np.zeros(sentences)  # the search's, after the rules
        self._ids = np.zeros((sentences, 0), np.int64) if begun is None else begun
        self._token_log_probs = np.zeros(self._ids.shape)
        self.length = self._ids.shape[1]
        self.lengths: Int64[np.ndarray, " rows"] = np.full(sentences, self.length)
        self._source = self.sentence  # the sentence that a row has read, also when it is free
        self._found: CandidateTensors | None = None  # the next step's candidates, if `run_steps` found them
        self.select(np.arange(sentences), self.rank)

    def record_alternatives(self, count: int) -> None:
        """Record the `count` most probable tokens at each step from now on."""
        self.alternatives = Alternatives(count, len(self.sentence))

    @property
    def ids(self) -> Int64[np.ndarray, "rows length"]:
        """The tokens so far."""
        return self._ids[:, : self.length]

    @property
    def token_log_probs(self) -> Float64[np.ndarray, "rows length"]:
        """The model's own log-probabilities of the tokens."""
        return self._token_log_probs[:, : self.length]

    def ids_of(self, row: int) -> list[int]:
        """The tokens of this row."""
        return self._ids[row, : self.lengths[row]].tolist()

    def log_probs_of(self, row: int) -> list[float]:
        """The log-probabilities of the tokens of this row."""
        return self._token_log_probs[row, : self.lengths[row]].tolist()

    def alternatives_of(self, row: int, length: int) -> list[RankedTokens]:
        """See `Alternatives.of_row`; empty if they are not recorded."""
        return [] if self.alternatives is None else self.alternatives.of_row(row, length)

    def taken(self, row: int, begin: int) -> list[TakenToken]:
        """The tokens of this row from the place `begin` on."""
        ids, log_probs = self.ids_of(row), self.log_probs_of(row)
        alternatives = self.alternatives_of(row, len(ids)) or [()] * len(ids)
        return [*map(TakenToken, ids[begin:], log_probs[begin:], alternatives[begin:])]

    def lengths_by_sentence(self, sentences: int) -> Int64[np.ndarray, " sentences"]:
        """The length of the hypotheses of each sentence; 0 where there are none."""
        found, live = np.zeros(sentences, np.int64), self.live()
        found[self.sentence[live]] = self.lengths[live]
        return found

    def groups(self) -> Iterator[tuple[Int64[np.ndarray, " some"], int]]:
        """The rows of each length, and that length."""
        for length in np.unique(self.lengths).tolist():
            yield np.flatnonzero(self.lengths == length), length

    def live(self) -> Int64[np.ndarray, " live"]:
        """The rows that hold a hypothesis."""
        return np.flatnonzero(self.sentence != SPARE)

    def step(self, bos_id: int) -> Float[Tensor, "rows vocab"]:
        """The log-probabilities of the next token."""
        return self.stepper.step(self.last(bos_id))

    def logits(self, bos_id: int) -> Float[Tensor, "rows vocab"]:
        """The logits of the next token, or its log-probabilities where the stepper gives no logits."""
        if isinstance(self.stepper, LogitStepper):
            return self.stepper.logits(self.last(bos_id))
        return self.step(bos_id)

    def top_candidates(
        self, bos_id: int, size: int, asked: Int64[np.ndarray, " rows"]
    ) -> CandidateArrays | None:
        """The `size` most probable next tokens and their ids, and the log-probability of `asked`.

        None if the stepper does not rank; then it has read nothing.
        """
        if self._ranking is None:
            return None
        if (found := self.taken_over()) is not None:
            assert found[0].shape[1] == size
            return found
        return as_arrays(self._ranking.top_candidates(self.last(bos_id), size, torch.from_numpy(asked)))

    def taken_over(self) -> CandidateArrays | None:
        """The next step's candidates, if `run_steps` found them; once."""
        found, self._found = self._found, None
        return None if found is None else as_arrays(found)

    @property
    def is_unranked(self) -> bool:
        """True if the stepper does not rank next tokens."""
        return self._ranking is None

    def may_take_steps(self) -> bool:
        """True if `searching` is to be asked for several steps; asking costs as much as a small step."""
        self._paused = max(0, self._paused - 1)
        return not self._paused

    def add_steps(self, taken: StepsTaken) -> None:
        """Add what the stepper's `run_steps` gained, whose candidates are those of the next step."""
        origins, tokens, gains = (each.numpy() for each in (taken.origins, taken.tokens, taken.gains))
        steps = tokens.shape[1]
        self._found = taken.candidates
        self._pause = 0 if steps else min(MOST_PAUSE, 2 * self._pause + 1)
        self._paused = self._pause
        self._ids, self._token_log_probs = self._ids[origins], self._token_log_probs[origins]
        self._widen(self.length + steps)
        new = self.lengths[origins, None] + np.arange(steps)
        np.put_along_axis(self._ids, new, tokens, axis=1)
        np.put_along_axis(self._token_log_probs, new, gains, axis=1)
        self.log_prob, self.rank = taken.log_probs.numpy(), taken.ranks.numpy()
        self.sentence, self._source = self.sentence[origins], self._source[origins]
        self.lengths = self.lengths[origins] + steps
        self.length = int(self.lengths.max(initial=0))

    def last(self, bos_id: int) -> Int64[Tensor, " rows"]:
        """The last token of each row; `bos_id` where there is none."""
        if not self.length:
            return torch.full((len(self.sentence),), bos_id)
        last = self._ids[np.arange(len(self._ids)), self.lengths - 1]
        return torch.from_numpy(np.where(self.lengths > 0, last, bos_id))

    def join(self, sentences: Int64[np.ndarray, " new"], begun: Sequence[Sequence[int]]) -> None:
        """Append a row for each of these sentences, whose rows have joined the stepper."""
        new = len(sentences)
        lengths = np.array([len(each) for each in begun])
        self._widen(int(lengths.max()))
        ids = np.zeros((new, self._ids.shape[1]), np.int64)
        for row, each in enumerate(begun):
            ids[row, : len(each)] = each
        self._ids = np.concatenate((self._ids, ids))
        self._token_log_probs = np.concatenate((self._token_log_probs, np.zeros(ids.shape)))
        self.sentence, self.rank, self.log_prob, self.lengths = (
            np.concatenate(both)
            for both in (
                (self.sentence, sentences),
                (self.rank, np.zeros(new, np.int64)),
                (self.log_prob, np.zeros(new)),
                (self.lengths, lengths),
            )
        )
        self._source = self.sentence
        self.length = int(self.lengths.max())
        if self.alternatives is not None:
            self.alternatives.join(new)

    def _widen(self, width: int) -> None:
        """Make room for `width` tokens in each row."""
        more = max(width, 16, 2 * self.length) - self._ids.shape[1]
        if width > self._ids.shape[1]:
            new = np.zeros((len(self._ids), more))
            self._ids = np.hstack((self._ids, new.astype(np.int64)))
            self._token_log_probs = np.hstack((self._token_log_probs, new))

    def select(
        self, parents: Int64[np.ndarray, " new"], rank: Int64[np.ndarray, " new"]
    ) -> Int64[np.ndarray, " new"]:
        """Make hypothesis i a copy of row `parents[i]`. Returns the rows that they get."""
        slots, origin = self._assigned(parents)
        sentence = self.sentence[parents]
        if len(origin) != len(self._source) or (origin != np.arange(len(origin))).any():
            self._move(origin)
        self.sentence = np.full(len(origin), SPARE)
        self.sentence[slots] = sentence
        self.rank = np.zeros(len(origin), np.int64)
        self.rank[slots] = rank
        return slots

    def renumber(self, sentence: Int64[np.ndarray, " rows"]) -> None:
        """Give the sentences other numbers."""
        self.sentence = self._source = sentence

    def _move(self, origin: Int64[np.ndarray, " rows"]) -> None:
        """Make row i a copy of row `origin[i]`."""
        self._source = self._source[origin]
        self.log_prob, self.lengths = self.log_prob[origin], self.lengths[origin]
        self.length = int(self.lengths.max(initial=0))
        self._ids, self._token_log_probs = self._ids[origin], self._token_log_probs[origin]
        if len(origin):
            self.stepper.select(torch.from_numpy(origin))
        if self.alternatives is not None:
            self.alternatives.move(origin)

    def append(
        self,
        slots: Int64[np.ndarray, " new"],
        ids: Int64[np.ndarray, " new"],
        log_probs: Float64[np.ndarray, " new"],
        scores: Float64[np.ndarray, " new"] | None = None,
    ) -> None:
        """Append a token to these rows. `scores`: what it counts for, if not its log-probability."""
        self._widen(self.length + 1)
        rows = np.arange(len(self.sentence))
        appended, gained = np.zeros(len(rows), np.int64), np.zeros(len(rows))
        appended[slots], gained[slots] = ids, log_probs
        self._ids[rows, self.lengths], self._token_log_probs[rows, self.lengths] = appended, gained
        self.lengths = self.lengths + 1
        self.length += 1
        if self.alternatives is not None:
            self.alternatives.append()
        if scores is not None:
            gained = np.zeros(len(rows))
            gained[slots] = scores
        self.log_prob = self.log_prob + gained

    def _assigned(
        self, parents: Int64[np.ndarray, " new"]
    ) -> tuple[Int64[np.ndarray, " new"], Int64[np.ndarray, " rows"]]:
        """A row for each hypothesis, and for each row the one that it becomes a copy of."""
        rows, needed = len(self.sentence), round_up(len(parents), self._multiple)
        if not len(parents):
            return parents, parents
        kept = rows if self._multiple == 1 else rows * 7 // 8 + 1  # a spare row costs more than a move
        if needed > rows or needed < kept or rows % self._multiple:  # grow, or shrink
            spare = np.full(needed - len(parents), parents[0])
            return np.arange(len(parents)), np.concatenate((parents, spare))
        if (parents[1:] > parents[:-1]).all():  # each parent has one child, which stays
            return parents, np.arange(rows)
        first = np.full(rows, SPARE)
        first[parents[::-1]] = np.arange(len(parents))[::-1]  # of several children the first, written last
        free = np.flatnonzero(first == SPARE)
        children = first[first != SPARE]
        slots = np.full(len(parents), SPARE)
        slots[children] = parents[children]
        others = np.flatnonzero(slots == SPARE)
        slots[others] = _nearest(self._source[parents[others]], free, self._source[free])
        origin = np.arange(rows)
        origin[slots] = parents
        return slots, origin


def _nearest(
    wanted: Int64[np.ndarray, " new"], free: Int64[np.ndarray, " free"], source: Int64[np.ndarray, " free"]
) -> list[int]:
    """A free row for each: one that has read the wanted sentence if there is one, else any."""
    # a few rows in a step: set operations of NumPy take longer
    by_source: dict[int, list[int]] = {}
    for slot, each in zip(reversed(free.tolist()), reversed(source.tolist()), strict=True):
        by_source.setdefault(each, []).append(slot)
    slots = [found.pop() if (found := by_source.get(each)) else None for each in wanted.tolist()]
    taken = set(slots)
    rest = (slot for slot in free.tolist() if slot not in taken)
    return [next(rest) if slot is None else slot for slot in slots]
