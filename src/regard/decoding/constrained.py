"""Constrained beam search: hypotheses that contain what they must (after Post & Vilar 2018)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest

import numpy as np
import torch
from jaxtyping import Float64

from regard.decoding.base_search import NextTokenScores, RequestConstraints, SelectedTokens
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.ranking import top_candidates
from regard.decoding.rows import HypothesisRows
from regard.decoding.search import BeamSearch, FinishedHypotheses
from regard.decoding.step import Stepper
from regard.errors import ConfigError

Phrase = tuple[int, ...]
State = tuple[tuple[int, ...] | None, ...]  # of each constraint how much of each phrase is said; None: met


@dataclass(frozen=True, kw_only=True)
class ConstrainedCandidate:
    """A token after a row; `bank`: how much of what must be said is said with it."""

    total: float
    token: int
    row: int
    column: int
    state: State
    bank: int


@dataclass(frozen=True, kw_only=True)
class ConstrainedBeamSearch(BeamSearch):
    """A beam whose hypotheses end only when each of `constraints` is met: one of its phrases is said.

    At each step the tokens that bring a phrase forward are candidates too, however unlikely they are. The
    beam is shared by banks of hypotheses that are equally far: the best of each in turn, the farthest first.
    So a beam of any size gets there, and one that has room for all finds the best of those that do.
    """

    constraints: tuple[tuple[Phrase, ...], ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.constraints or not all(self.constraints) or not all(map(all, self.constraints)):
            raise ConfigError("a constraint without a token cannot be met", "leave it out")

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        podium = FinishedHypotheses(len(requests), self.n_best)
        course = RequestConstraints(requests, self.limits, self.eos_id)
        self._refuse_short(course)
        greatest = self.greatest(course)
        rows = self.rows(stepper, requests)
        start: State = tuple((0,) * len(phrases) for phrases in self.constraints)
        states: list[State] = [start] * len(rows.sentence)
        while len(rows.live()):
            prepared = self.prepare(rows.step(self.bos_id), rows, course)
            chosen = self._chosen(prepared, rows, states)
            kept = []
            for sentence, candidates in self._by_sentence(rows, course, chosen, states):
                going = self._end(rows, course, chosen, podium, sentence, candidates)
                able = [each for each in going if self._may_win(each, sentence, greatest, podium)]
                kept += enumerate(self._shared(able))
            seats = rows.select(
                np.array([each.row for _, each in kept], np.int64), np.array([r for r, _ in kept], np.int64)
            )
            places = ([each.row for _, each in kept], [each.column for _, each in kept])
            values = chosen.values[places] if self.weighs else None
            rows.append(seats, chosen.ids[places], chosen.own[places], values)
            states = [start] * len(rows.sentence)
            for seat, (_, each) in zip(seats.tolist(), kept, strict=True):
                states[seat] = each.state
            self._end_stopped(rows, course, podium, states)
        return podium.found

    def _refuse_short(self, course: RequestConstraints) -> None:
        """Raise a ConfigError where there may be no room for all that must be said."""
        needed = sum(max(map(len, phrases)) for phrases in self.constraints)
        room = int((course.longest - course.given).min())
        if room < needed:
            raise ConfigError(
                f"must_contain needs {needed} tokens, but no more than {room} may be said",
                "ask for less, or give a larger max_new_tokens",
            )

    def _chosen(self, prepared: NextTokenScores, rows: HypothesisRows, states: list[State]) -> SelectedTokens:
        """The likeliest tokens of each row, and after them those that bring a phrase forward."""
        live, log_probs = rows.live(), prepared.log_probs
        unmet = torch.tensor([row for row in live.tolist() if not self._met(states[row])], dtype=torch.int64)
        for end in (self.eos_id, *self.ends):
            log_probs[unmet.to(log_probs.device), end] = -torch.inf
        values, ids = top_candidates(log_probs, self.beam_size + 1)
        wanted = {row: self._wanted(states[row]) - {*ids[row].tolist()} for row in live.tolist()}
        width = max(map(len, wanted.values()))
        more = np.zeros((len(ids), width), np.int64)
        absent = np.ones(more.shape, bool)
        for row, tokens in wanted.items():
            more[row, : len(tokens)] = sorted(tokens)
            absent[row, : len(tokens)] = False
        extra = log_probs.gather(1, torch.from_numpy(more).to(log_probs.device)).cpu().numpy()
        extra = np.where(absent, -np.inf, extra.astype(np.float64))
        return self.settle(
            prepared, live, np.concatenate((values, extra), axis=1), np.concatenate((ids, more), axis=1)
        )

    def _by_sentence(
        self, rows: HypothesisRows, course: RequestConstraints, chosen: SelectedTokens, states: list[State]
    ) -> Iterator[tuple[int, list[ConstrainedCandidate]]]:
        """The candidates of each sentence, the best first; of equal ones as a plain beam has them."""
        live = rows.live()
        totals = rows.log_prob[:, None] + chosen.values
        found: dict[int, list[tuple[float, int, int, ConstrainedCandidate]]] = defaultdict(list)
        for row in live.tolist():
            sentence, rank = int(rows.sentence[row]), int(rows.rank[row])
            given = rows.length < course.given[sentence]
            for column in np.flatnonzero(np.isfinite(totals[row])).tolist():
                token, total = int(chosen.ids[row, column]), float(totals[row, column])
                state = states[row] if given else self._after(states[row], token)
                candidate = ConstrainedCandidate(
                    total=total, token=token, row=row, column=column, state=state, bank=self._bank(state)
                )
                found[sentence].append((-total, token, rank, candidate))
        for sentence, each in found.items():
            yield sentence, [candidate for *_, candidate in sorted(each, key=lambda item: item[:3])]

    def _end(
        self,
        rows: HypothesisRows,
        course: RequestConstraints,
        chosen: SelectedTokens,
        podium: FinishedHypotheses,
        sentence: int,
        candidates: list[ConstrainedCandidate],
    ) -> list[ConstrainedCandidate]:
        """Finish what ends among the best of those that have met all; what goes on."""
        met = [each for each in candidates if self._met(each.state)]
        for each in met[: self.beam_size]:
            if self.ends_by(each.token):
                place = (each.row, each.column)
                value, own = float(chosen.values[place]), float(chosen.own[place])
                podium.add(sentence, self.hypothesis(rows, course, each.row, value, own))
        return [each for each in candidates if not self.ends_by(each.token)]

    def _may_win(
        self,
        each: ConstrainedCandidate,
        sentence: int,
        greatest: Float64[np.ndarray, " sentences"],
        podium: FinishedHypotheses,
    ) -> bool:
        if self.early_stopping:
            return bool(podium.ended[sentence] < self.beam_size)
        if any(rule.raises for rule in self.rules):
            return True
        return bool(each.total / greatest[sentence] > podium.bar[sentence])

    def _shared(self, candidates: list[ConstrainedCandidate]) -> list[ConstrainedCandidate]:
        """The best of each bank, then the second best of each, until the beam is full."""
        banks: dict[int, list[ConstrainedCandidate]] = defaultdict(list)
        for each in candidates:
            banks[each.bank].append(each)
        rounds = zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True)))
        return [each for each in chain.from_iterable(rounds) if each is not None][: self.beam_size]

    def _end_stopped(
        self,
        rows: HypothesisRows,
        course: RequestConstraints,
        podium: FinishedHypotheses,
        states: list[State],
    ) -> None:
        """What has said a stop text ends, if it has met all; else it is lost."""
        stopped = self.at_a_stop(rows, course)
        for row in stopped.tolist():
            if self._met(states[row]):
                podium.add(int(rows.sentence[row]), self.stopped(rows, course, row))
        kept = np.setdiff1d(rows.live(), stopped)
        if len(stopped):
            before = [states[row] for row in kept.tolist()]
            seats = rows.select(kept, rows.rank[kept])
            states[:] = [states[0]] * len(rows.sentence)
            for seat, state in zip(seats.tolist(), before, strict=True):
                states[seat] = state

    def _met(self, state: State) -> bool:
        return all(each is None for each in state)

    def _bank(self, state: State) -> int:
        """Tokens of what is met, and of the farthest phrase that is not.

        Whoever goes on with that phrase comes into a higher bank, whatever becomes of others by it.
        """
        met = sum(
            max(map(len, phrases))
            for phrases, each in zip(self.constraints, state, strict=True)
            if each is None
        )
        return met + max((matched for each in state if each is not None for matched in each), default=0)

    def _wanted(self, state: State) -> set[int]:
        return {
            phrase[matched]
            for phrases, each in zip(self.constraints, state, strict=True)
            if each is not None
            for phrase, matched in zip(phrases, each, strict=True)
        }

    def _after(self, state: State, token: int) -> State:
        return tuple(
            None if each is None else _said(phrases, each, token)
            for phrases, each in zip(self.constraints, state, strict=True)
        )


def _said(phrases: tuple[Phrase, ...], matched: tuple[int, ...], token: int) -> tuple[int, ...] | None:
    """How much of each phrase what was said ends in, with this token; None: one of them is whole."""
    found = []
    for phrase, count in zip(phrases, matched, strict=True):
        while count and phrase[count] != token:
            count = _borders(phrase)[count - 1]  # Knuth, Morris & Pratt 1977
        count += phrase[count] == token
        if count == len(phrase):
            return None
        found.append(count)
    return tuple(found)


@lru_cache
def _borders(phrase: Phrase) -> list[int]:
    """For each beginning of a phrase, how long the longest shorter beginning is in which it ends."""
    found = [0]
    for token in phrase[1:]:
        count = found[-1]
        while count and phrase[count] != token:
            count = found[count - 1]
        found.append(count + (phrase[count] == token))
    return found
