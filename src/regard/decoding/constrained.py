"""Constrained beam search: hypotheses that contain required phrases (after Post & Vilar 2018)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest

import numpy as np
import torch
from jaxtyping import Float64

from regard.decoding.base_search import (
    NextTokenScores,
    RequestConstraints,
    SearchSteps,
    SelectedTokens,
    after_all_steps,
)
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.ranking import top_candidates
from regard.decoding.rows import HypothesisRows
from regard.decoding.search import BeamSearch, FinishedHypotheses
from regard.decoding.step import Stepper
from regard.errors import ConfigError

Phrase = tuple[int, ...]
MatchState = tuple[tuple[int, ...] | None, ...]  # a constraint: matched tokens by phrase; None: met


@dataclass(frozen=True, kw_only=True)
class ConstrainedCandidate:
    """A token after a row; `bank`: how many required tokens are matched with it."""

    total: float
    token: int
    row: int
    column: int
    state: MatchState
    bank: int


@dataclass(frozen=True, kw_only=True)
class ConstrainedBeamSearch(BeamSearch):
    """A beam whose hypotheses end only when each of `constraints` is met: one of its phrases was generated.

    At each step the tokens that continue a phrase are candidates too, however unlikely they are. The beam is
    shared by banks of hypotheses with equally many matched tokens: the best of each bank in turn, from the
    bank with most matches. So a beam of any size meets the constraints, and one that has room for all finds
    the best hypothesis that does.

    `sentence_end`: true of tokens that end a sentence. A hypothesis that lacks a phrase there, and that the
    model would end, is dropped if there is another: no phrase is appended after the final punctuation.
    """

    constraints: tuple[tuple[Phrase, ...], ...]
    sentence_end: Callable[[Sequence[int]], bool] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.constraints or not all(self.constraints) or not all(map(all, self.constraints)):
            raise ConfigError("a constraint without a token cannot be met", "leave it out")

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        return after_all_steps(self.run(stepper, requests))

    def run(self, stepper: Stepper, requests: Sequence[Request]) -> SearchSteps:
        """As a call, step by step."""
        finished = FinishedHypotheses(len(requests), self.n_best)
        constraints = RequestConstraints(requests, self.limits, self.eos_id)
        self._refuse_short(constraints)
        greatest = self.greatest(constraints)
        rows = self.rows(stepper, requests)
        start: MatchState = tuple((0,) * len(phrases) for phrases in self.constraints)
        states: list[MatchState] = [start] * len(rows.sentence)
        while len(rows.live()):
            prepared = self.prepare(rows.step(self.bos_id), rows, constraints)
            complete = self._complete(prepared, rows, constraints, states)
            chosen = self._chosen(prepared, rows, constraints, states)
            kept = []
            for sentence, candidates in self._by_sentence(rows, constraints, chosen, states):
                going = self._end(rows, constraints, chosen, finished, sentence, candidates)
                going = [each for each in going if each.row not in complete] or going
                able = [each for each in going if self._may_win(each, sentence, greatest, finished)]
                kept += enumerate(self._shared(able))
            slots = rows.select(
                np.array([each.row for _, each in kept], np.int64), np.array([r for r, _ in kept], np.int64)
            )
            places = ([each.row for _, each in kept], [each.column for _, each in kept])
            values = chosen.values[places] if self.changes_scores else None
            rows.append(slots, chosen.ids[places], chosen.own[places], values)
            states = [start] * len(rows.sentence)
            for slot, (_, each) in zip(slots.tolist(), kept, strict=True):
                states[slot] = each.state
            self._end_stopped(rows, constraints, finished, states)
            yield rows
        return finished.found

    def _refuse_short(self, constraints: RequestConstraints) -> None:
        """Raise a ConfigError if the required tokens may not fit."""
        needed = sum(max(map(len, phrases)) for phrases in self.constraints)
        room = int((constraints.longest - constraints.prefix_lengths).min())
        if room < needed:
            raise ConfigError(
                f"must_contain needs {needed} tokens, but at most {room} are allowed",
                "ask for less, or give a larger max_new_tokens",
            )

    def _complete(
        self,
        prepared: NextTokenScores,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        states: list[MatchState],
    ) -> set[int]:
        """The rows that lack a phrase, but end a sentence, and whose most probable next token is the end."""
        if self.sentence_end is None:
            return set()
        best = prepared.log_probs.argmax(dim=-1).tolist()
        in_prompt = constraints.in_prompt(rows)
        return {
            row
            for row in rows.live().tolist()
            if self.ends_by(best[row])
            and not (self._met(states[row]) or in_prompt[row])
            and self.sentence_end(rows.ids_of(row))
        }

    def _chosen(
        self,
        prepared: NextTokenScores,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        states: list[MatchState],
    ) -> SelectedTokens:
        """The most probable tokens of each row, and after them those that continue a phrase."""
        live, log_probs, in_prompt = rows.live(), prepared.log_probs, constraints.in_prompt(rows)
        open_rows = [row for row in live.tolist() if not (self._met(states[row]) or in_prompt[row])]
        unmet = torch.tensor(open_rows, dtype=torch.int64)
        for end in (self.eos_id, *self.ends):
            log_probs[unmet.to(log_probs.device), end] = -torch.inf
        values, ids = top_candidates(log_probs, self.tokens_of_row)
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
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        chosen: SelectedTokens,
        states: list[MatchState],
    ) -> Iterator[tuple[int, list[ConstrainedCandidate]]]:
        """The candidates of each sentence, best first; equal ones in the order of a plain beam."""
        live = rows.live()
        totals = rows.log_prob[:, None] + chosen.values
        found: dict[int, list[tuple[float, int, int, ConstrainedCandidate]]] = defaultdict(list)
        for row in live.tolist():
            sentence, rank = int(rows.sentence[row]), int(rows.rank[row])
            in_prefix = rows.length < constraints.prefix_lengths[sentence]
            for column in np.flatnonzero(np.isfinite(totals[row])).tolist():
                token, total = int(chosen.ids[row, column]), float(totals[row, column])
                state = states[row] if in_prefix else self._after(states[row], token)
                candidate = ConstrainedCandidate(
                    total=total, token=token, row=row, column=column, state=state, bank=self._bank(state)
                )
                found[sentence].append((-total, token, rank, candidate))
        for sentence, each in found.items():
            yield sentence, [candidate for *_, candidate in sorted(each, key=lambda item: item[:3])]

    def _end(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        chosen: SelectedTokens,
        finished: FinishedHypotheses,
        sentence: int,
        candidates: list[ConstrainedCandidate],
    ) -> list[ConstrainedCandidate]:
        """Finish those of the best candidates that end and meet all constraints. Returns the others."""
        in_prompt = constraints.in_prompt(rows)

        def ends(each: ConstrainedCandidate) -> bool:
            return self.ends_by(each.token) and not in_prompt[each.row]

        met = [each for each in candidates if self._met(each.state)]
        for each in met[: self.size]:
            if ends(each):
                place = (each.row, each.column)
                value, own = float(chosen.values[place]), float(chosen.own[place])
                finished.add(sentence, self.hypothesis(rows, constraints, each.row, value, own))
        return [each for each in candidates if not ends(each)]

    def _may_win(
        self,
        each: ConstrainedCandidate,
        sentence: int,
        greatest: Float64[np.ndarray, " sentences"],
        finished: FinishedHypotheses,
    ) -> bool:
        if self.early_stopping:
            return bool(finished.ended[sentence] < self.size)
        if any(rule.raises for rule in self.rules):
            return True
        return bool(each.total / greatest[sentence] > finished.bar[sentence])

    def _shared(self, candidates: list[ConstrainedCandidate]) -> list[ConstrainedCandidate]:
        """The best of each bank, then the second best of each, until the beam is full."""
        banks: dict[int, list[ConstrainedCandidate]] = defaultdict(list)
        for each in candidates:
            banks[each.bank].append(each)
        rounds = zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True)))
        return [each for each in chain.from_iterable(rounds) if each is not None][: self.size]

    def _end_stopped(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        finished: FinishedHypotheses,
        states: list[MatchState],
    ) -> None:
        """Finish the hypotheses with a stop text that meet all constraints, drop the others."""
        stopped = self.at_a_stop(rows, constraints)
        for row in stopped.tolist():
            if self._met(states[row]):
                finished.add(int(rows.sentence[row]), self.stopped(rows, constraints, row))
        kept = np.setdiff1d(rows.live(), stopped)
        if len(stopped):
            before = [states[row] for row in kept.tolist()]
            slots = rows.select(kept, rows.rank[kept])
            for slot, state in zip(slots.tolist(), before, strict=True):
                states[slot] = state

    def _met(self, state: MatchState) -> bool:
        return all(each is None for each in state)

    def _bank(self, state: MatchState) -> int:
        """The tokens of the met constraints, and the most matched tokens of an unmet phrase.

        A candidate that continues that phrase is in a higher bank, whatever happens to other phrases.
        """
        met = sum(
            max(map(len, phrases))
            for phrases, each in zip(self.constraints, state, strict=True)
            if each is None
        )
        return met + max((matched for each in state if each is not None for matched in each), default=0)

    def _wanted(self, state: MatchState) -> set[int]:
        return {
            phrase[matched]
            for phrases, each in zip(self.constraints, state, strict=True)
            if each is not None
            for phrase, matched in zip(phrases, each, strict=True)
        }

    def _after(self, state: MatchState, token: int) -> MatchState:
        return tuple(
            None if each is None else _matched(phrases, each, token)
            for phrases, each in zip(self.constraints, state, strict=True)
        )


def _matched(phrases: tuple[Phrase, ...], matched: tuple[int, ...], token: int) -> tuple[int, ...] | None:
    """How many tokens of each phrase the text ends with, after this token; None: one phrase is complete."""
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
    """For each prefix of a phrase, the length of its longest proper prefix that is also its suffix."""
    found = [0]
    for token in phrase[1:]:
        count = found[-1]
        while count and phrase[count] != token:
            count = found[count - 1]
        found.append(count + (phrase[count] == token))
    return found
