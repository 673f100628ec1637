"""Constrained beam search: hypotheses that contain required phrases (after Post & Vilar 2018)."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, zip_longest
from typing import NamedTuple

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
from regard.decoding.hypothesis import Constraint, Hypothesis, Phrase, Request
from regard.decoding.ranking import top_candidates
from regard.decoding.rows import HypothesisRows
from regard.decoding.search import BeamSearch, FinishedHypotheses
from regard.decoding.step import Stepper
from regard.errors import ConfigError


class Match:
    """How much of what is required a text has.

    Attributes:
        unmet: the constraints that are not met; of each phrase how many of its tokens the text ends with.
        met: the tokens of the others.
        bank: those, and the most matched tokens of an unmet phrase. A candidate that continues that phrase is
            in a higher bank, whatever happens to other phrases.
        wanted: the tokens that continue a phrase.
    """

    __slots__ = ("_begun", "_tokens", "bank", "met", "unmet", "wanted")

    def __init__(self, unmet: Sequence[tuple[Constraint, tuple[int, ...]]], met: int = 0) -> None:
        self.unmet, self.met = tuple(unmet), met
        self.bank = met + max((count for _, counts in unmet for count in counts), default=0)
        self.wanted = {
            phrase[count] for phrases, counts in unmet for phrase, count in zip(phrases, counts, strict=True)
        }
        self._tokens = {token for phrases, _ in unmet for phrase in phrases for token in phrase}
        self._begun = any(count for _, counts in unmet for count in counts)

    @classmethod
    def of(cls, constraints: Sequence[Constraint]) -> "Match":
        """That of an empty text."""
        return cls([(phrases, (0,) * len(phrases)) for phrases in constraints])

    def after(self, token: int) -> "Match":
        """That of the text with one token more."""
        if token not in self._tokens and not self._begun:
            return self
        unmet: list[tuple[Constraint, tuple[int, ...]]] = []
        met = self.met
        for phrases, counts in self.unmet:
            if (matched := _matched(phrases, counts, token)) is None:
                met += max(map(len, phrases))
            else:
                unmet.append((phrases, matched))
        return Match(unmet, met)


class ConstrainedCandidate(NamedTuple):
    """A token after a row."""

    total: float
    token: int
    row: int
    column: int
    state: Match


@dataclass(frozen=True, kw_only=True)
class ConstrainedBeamSearch(BeamSearch):
    """A beam whose hypotheses end only when each constraint is met: one of its phrases was generated.

    `constraints` are those of each request; it may have others, its `required`.

    At each step the tokens that continue a phrase are candidates too, however unlikely they are. The beam is
    shared by banks of hypotheses with equally many matched tokens: the best of each bank in turn, from the
    bank with most matches. So a beam of any size meets the constraints, and one that has room for all finds
    the best hypothesis that does.

    `sentence_end`: true of tokens that end a sentence. A hypothesis that the model would end there is not
    continued, for with a length penalty that divides, saying it all again would give a better score; one that
    lacks a phrase is, if there is no other.
    """

    constraints: tuple[Constraint, ...]
    sentence_end: Callable[[Sequence[int]], bool] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_empty(self.constraints)

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        return after_all_steps(self.run(stepper, requests))

    def run(self, stepper: Stepper, requests: Sequence[Request]) -> SearchSteps:
        """As a call, step by step."""
        finished = FinishedHypotheses(len(requests), self.n_best)
        constraints = RequestConstraints(requests, self.limits, self.eos_id)
        self._refuse_short(constraints)
        no_sentence = {
            sentence
            for sentence, request in enumerate(requests)
            if any(map(self._ends_sentence, chain.from_iterable(self._of_request(request))))
        }
        greatest = self.greatest(constraints)
        rows = self.rows(stepper, requests)
        starts = [Match.of(self._of_request(each)) for each in requests]
        nothing = Match(())
        states = [nothing] * len(rows.sentence)
        for row in rows.live().tolist():
            states[row] = starts[rows.sentence[row]]
        while len(rows.live()):
            prepared = self.prepare(rows.step(self.bos_id), rows, constraints)
            complete = self._complete(prepared, rows, constraints, states, no_sentence)
            chosen = self._chosen(prepared, rows, constraints, states)
            kept = []
            for sentence, candidates in self._by_sentence(rows, constraints, chosen, states):
                going = self._end(rows, constraints, chosen, finished, sentence, candidates)
                unfinished = [each for each in going if each.row not in complete or states[each.row].unmet]
                if unfinished or len(finished.found[sentence]) >= self.n_best:
                    going = unfinished
                going = [each for each in going if each.row not in complete] or going
                able = [each for each in going if self._may_win(each, sentence, greatest, finished)]
                kept += enumerate(self._shared(able))
            slots = rows.select(
                np.array([each.row for _, each in kept], np.int64), np.array([r for r, _ in kept], np.int64)
            )
            places = ([each.row for _, each in kept], [each.column for _, each in kept])
            rows.append(slots, chosen.ids[places], chosen.own[places], chosen.values[places])
            states = [nothing] * len(rows.sentence)
            for slot, (_, each) in zip(slots.tolist(), kept, strict=True):
                states[slot] = each.state
            self._end_stopped(rows, constraints, finished, states)
            yield rows
        return finished.found

    def _of_request(self, request: Request) -> tuple[Constraint, ...]:
        """What a request requires."""
        found = *self.constraints, *request.required
        if not found:
            raise ConfigError("a constraint without a token cannot be met", "leave it out")
        return found

    def _ends_sentence(self, phrase: Phrase) -> bool:
        """True for a phrase that ends a sentence, which may follow the others."""
        return self.sentence_end is not None and self.sentence_end(phrase)

    def _refuse_short(self, constraints: RequestConstraints) -> None:
        """Raise NoRoom if the required tokens may not fit."""
        allowed = (constraints.longest - constraints.prefix_lengths).tolist()
        for request, room in zip(constraints.requests, allowed, strict=True):
            _refuse_empty(request.required)
            needed = sum(max(map(len, phrases)) for phrases in self._of_request(request))
            if room < needed:
                raise NoRoom(request.index, needed, room)

    def _complete(
        self,
        prepared: NextTokenScores,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        states: list[Match],
        no_sentence: set[int],
    ) -> set[int]:
        """The rows that end a sentence, and whose most probable next token is the end."""
        if self.sentence_end is None:
            return set()
        best = prepared.log_probs.argmax(dim=1).tolist()
        in_prompt = constraints.in_prompt(rows)
        return {
            row
            for row in rows.live().tolist()
            if self.ends_by(best[row])
            and not (states[row].unmet and int(rows.sentence[row]) in no_sentence)
            and not in_prompt[row]
            and self.sentence_end(rows.ids_of(row))
        }

    def _chosen(
        self,
        prepared: NextTokenScores,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        states: list[Match],
    ) -> SelectedTokens:
        """The most probable tokens of each row, and after them those that continue a phrase."""
        live, log_probs, in_prompt = rows.live(), prepared.log_probs, constraints.in_prompt(rows)
        open_rows = [row for row in live.tolist() if states[row].unmet and not in_prompt[row]]
        unmet = torch.tensor(open_rows, dtype=torch.int64)
        for end in (self.eos_id, *self.ends):
            log_probs[unmet.to(log_probs.device), end] = -torch.inf
        values, ids = top_candidates(log_probs, self.tokens_of_row)
        wanted = {row: states[row].wanted - {*ids[row].tolist()} for row in live.tolist()}
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
        states: list[Match],
    ) -> Iterator[tuple[int, list[ConstrainedCandidate]]]:
        """The candidates of each sentence, best first; equal ones in the order of a plain beam."""
        live = rows.live()
        totals = rows.log_prob[:, None] + chosen.values
        found: dict[int, list[ConstrainedCandidate]] = defaultdict(list)
        for row in live.tolist():
            sentence = int(rows.sentence[row])
            in_prefix = rows.length < constraints.prefix_lengths[sentence]
            for column in np.flatnonzero(np.isfinite(totals[row])).tolist():
                token, total = int(chosen.ids[row, column]), float(totals[row, column])
                state = states[row] if in_prefix else states[row].after(token)
                found[sentence].append(ConstrainedCandidate(total, token, row, column, state))
        for sentence, candidates in found.items():
            yield sentence, sorted(candidates, key=lambda c: (-c.total, c.token, rows.rank[c.row]))

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

        met = [each for each in candidates if not each.state.unmet]
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
            banks[each.state.bank].append(each)
        rounds = zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True)))
        return [each for each in chain.from_iterable(rounds) if each is not None][: self.size]

    def _end_stopped(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        finished: FinishedHypotheses,
        states: list[Match],
    ) -> None:
        """Finish the hypotheses with a stop text that meet all constraints, drop the others."""
        stopped = self.at_a_stop(rows, constraints)
        for row in stopped.tolist():
            if not states[row].unmet:
                finished.add(int(rows.sentence[row]), self.stopped(rows, constraints, row))
        kept = np.setdiff1d(rows.live(), stopped)
        if len(stopped):
            before = [states[row] for row in kept.tolist()]
            slots = rows.select(kept, rows.rank[kept])
            for slot, state in zip(slots.tolist(), before, strict=True):
                states[slot] = state


class NoRoom(ConfigError):
    """What is required of a request may not fit; `index` is that of the request."""

    def __init__(self, index: int, needed: int, room: int) -> None:
        super().__init__(
            f"must_contain needs {needed} tokens, but at most {room} are allowed",
            "ask for less, or give a larger max_new_tokens",
        )
        self.index = index


def _refuse_empty(constraints: Sequence[Constraint]) -> None:
    """Raise a ConfigError for a constraint that no text meets, or any."""
    if not all(constraints) or not all(map(all, constraints)):
        raise ConfigError("a constraint without a token cannot be met", "leave it out")


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
