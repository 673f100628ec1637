"""The step that all searches share: rules, forced tokens, and the ends of hypotheses."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, LengthPenalty, Power, Request
from regard.decoding.penalties import RepetitionPenalty
from regard.decoding.ranking import TopCandidates, without, without_choice
from regard.decoding.request_constraints import FREE, RequestConstraints
from regard.decoding.rows import CandidateArrays, HypothesisRows
from regard.decoding.rules import NO_TOKEN, BannedTokens, BanningRule, GeneratedTokens, LengthLimits, Rule
from regard.decoding.search_checks import apply_rule, check_search, own_rules, warn_of_empty_texts
from regard.decoding.step import Stepper

Ranked = tuple[Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"]]
Ranking = Callable[[Float[Tensor, "rows vocab"]], Ranked]
SearchSteps = Generator[HypothesisRows, None, list[list[Hypothesis]]]  # the rows after each step; the answers
NOTHING_GENERATED = GeneratedTokens(torch.zeros(0, 0, dtype=torch.int64))  # for rules that read no tokens


class SelectedTokens(NamedTuple):
    """The tokens that a ranking selects in each row, best first."""

    values: Float64[np.ndarray, "rows size"]  # what they are ranked by
    ids: Int64[np.ndarray, "rows size"]
    own: Float64[
        np.ndarray, "rows size"
    ]  # the model's log-probabilities: the same, unless a rule changes them


class NextTokenScores(NamedTuple):
    """The scores of the next tokens in each row."""

    log_probs: Float[Tensor, "rows vocab"]  # after the rules
    own: Float[Tensor, "rows vocab"] | None  # before the rules; None: no rule changes them
    fallback: Int64[Tensor, " rows"]  # the token of a row if the rules forbid all
    fallback_log_probs: Float[Tensor, " rows"]  # the log-probability of `fallback`


@runtime_checkable
class StopCondition(Protocol):
    """What ends a hypothesis besides an end token: a stop text, for instance."""

    def __call__(self, prefix: Sequence[int], generated: Sequence[int]) -> bool: ...


@dataclass(frozen=True, kw_only=True)
class Search(ABC):
    """The settings of every search."""

    on_logits: ClassVar[bool] = False  # what rules change: logits, or log-probabilities
    alone: ClassVar[bool] = False  # True if each request needs a stepper of its own

    limits: LengthLimits = field(default_factory=LengthLimits)
    rules: tuple[Rule, ...] = ()
    length_penalty: LengthPenalty = field(default_factory=lambda: Power(alpha=0.0))
    n_best: int = 1
    bos_id: int = 2
    eos_id: int = 3
    ends: tuple[int, ...] = ()  # other tokens that end a hypothesis
    stop: StopCondition | None = None
    cut: bool = False  # at the greatest length a hypothesis is finished as it is; else its end is forced

    def __post_init__(self) -> None:
        check_search(self)

    @abstractmethod
    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """The best hypotheses of each request; the stepper has read their sources, a row each.

        A list is shorter than `n_best` if fewer hypotheses are possible.
        """

    @property
    def changes_scores(self) -> bool:
        """True if a rule changes scores, so that they differ from the model's log-probabilities."""
        return any(rule.changes_scores for rule in self.rules)

    def rows(self, stepper: Stepper, requests: Sequence[Request]) -> HypothesisRows:
        """A row for each request, with the tokens that the stepper has read."""
        begun = [request.prefix[: request.begun] for request in requests]
        return HypothesisRows(stepper, len(requests), np.array(begun, np.int64))

    def is_end(self, ids: Int64[np.ndarray, "*shape"]) -> Bool[np.ndarray, "*shape"]:
        """True for each of these tokens that ends a hypothesis."""
        return np.isin(ids, (self.eos_id, *self.ends)) if self.ends else ids == self.eos_id

    def ends_by(self, token: int) -> bool:
        """True if this token ends a hypothesis."""
        return token == self.eos_id or token in self.ends

    def hypothesis(
        self, rows: HypothesisRows, constraints: RequestConstraints, row: int, value: float, own: float
    ) -> Hypothesis:
        """The hypothesis of a row, finished by a token with this score and this log-probability."""
        each = [*rows.log_probs_of(row), own]
        return self._finished(rows, constraints, row, float(rows.log_prob[row]) + value, each)

    def stopped(self, rows: HypothesisRows, constraints: RequestConstraints, row: int) -> Hypothesis:
        """The hypothesis of a row as it is, without an end token."""
        each = rows.log_probs_of(row)
        return self._finished(rows, constraints, row, float(rows.log_prob[row]), each)

    def _finished(
        self, rows: HypothesisRows, constraints: RequestConstraints, row: int, total: float, each: list[float]
    ) -> Hypothesis:
        length = len(each) - int(constraints.uncounted[rows.sentence[row]])
        return Hypothesis(
            ids=rows.ids_of(row),
            log_prob=sum(each) if self.changes_scores else total,
            score=total / self.length_penalty(length),
            token_log_probs=each,
            alternatives=rows.alternatives_of(row, len(each)),
        )

    def at_a_stop(
        self, rows: HypothesisRows, constraints: RequestConstraints
    ) -> Int64[np.ndarray, " stopped"]:
        """The rows that have just generated a stop text, or reached their greatest length."""
        live = rows.live()
        over = np.zeros(len(live), bool)
        if self.cut:
            over |= rows.lengths[live] >= constraints.longest[rows.sentence[live]]
        if self.stop is not None:
            begins = constraints.prefix_lengths[rows.sentence[live]].tolist()
            texts = map(rows.ids_of, live.tolist())
            over |= np.array([*map(self.has_stop_text, texts, begins)], bool)
        return live[over]

    def has_stop_text(self, ids: Sequence[int], begin: int) -> bool:
        """True if these ids end by a stop text; the first `begin` are a prefix."""
        return self.stop is not None and len(ids) > begin and self.stop(ids[:begin], ids[begin:])

    def next_tokens(
        self, rows: HypothesisRows, constraints: RequestConstraints, rank: Ranking
    ) -> SelectedTokens:
        """One step: the next tokens of each row that `rank` selects, best first."""
        if isinstance(rank, TopCandidates):
            chosen = self.ranked_by_stepper(rows, constraints, rank.size)
            if chosen is not None:
                return chosen
        if not self.wants_logits:
            return self.choose(rows.step(self.bos_id), rows, constraints, rank)
        return self.of_logits(rows.logits(self.bos_id), rows, constraints, rank)

    def ranked_by_stepper(
        self, rows: HypothesisRows, constraints: RequestConstraints, size: int
    ) -> SelectedTokens | None:
        """The `size` most probable next tokens, if the stepper ranks them and rules name what they ban.

        Whether this way is taken does not depend on the batch: its last bits may differ from `choose`.
        """
        if rows.is_unranked or not all(map(names_tokens, self.rules)):
            return None
        banned = [*self.never, *self.banned_of_rows(rows, constraints)]
        forced = constraints.forced_or_free(rows)
        fallback = np.where(forced == FREE, self.eos_id, forced)
        recorded = rows.alternatives
        asked = size + len(banned) if recorded is None else max(size + len(banned), recorded.count)
        found = rows.top_candidates(self.bos_id, asked, fallback)
        if found is None:
            return None
        values, ids, fallback_log_probs = found
        if recorded is not None:
            recorded.record(values, ids)
        values, ids = without(banned, size, values, ids)
        return self.settled(rows, constraints, forced, (values, ids, fallback_log_probs))

    def settled(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        forced: Int64[np.ndarray, " rows"],
        found: CandidateArrays,
    ) -> SelectedTokens:
        """The candidates; in their place forced tokens, and where there are none the end token.

        The third of `found` are the log-probabilities of the forced token, or of the end token.
        """
        values, ids, fallback_log_probs = found
        fallback = np.where(forced == FREE, self.eos_id, forced)
        forced_rows = np.flatnonzero(forced != FREE)
        if len(forced_rows):
            counts = rows.lengths[forced_rows] >= constraints.uncounted[rows.sentence[forced_rows]]
            values[forced_rows], ids[forced_rows, 0] = -np.inf, fallback[forced_rows]
            values[forced_rows, 0] = fallback_log_probs[forced_rows] * counts
        stuck = without_choice(rows.live(), values, fallback_log_probs)
        values[stuck, 0], ids[stuck, 0] = fallback_log_probs[stuck], fallback[stuck]
        return SelectedTokens(values, ids, values)

    @property
    def never(self) -> list[int]:
        """The tokens that are banned at every step."""
        return sorted({token for rule in self.rules if isinstance(rule, BannedTokens) for token in rule.ids})

    def banned_of_rows(
        self, rows: HypothesisRows, constraints: RequestConstraints
    ) -> list[Int64[np.ndarray, " rows"]]:
        """Banned tokens, one of each row; NO_TOKEN where a row has fewer than another."""
        rules = [rule for rule in self.rules if isinstance(rule, BanningRule)]
        if not rules:
            return []
        groups = []
        for some, length in rows.groups():  # a rule reads tokens of one length
            generated = self._generated(rows, constraints, some, length, None)
            groups.append((some, torch.cat([rule.banned(generated) for rule in rules], dim=1).numpy()))
        found = np.full((len(rows.sentence), max(each.shape[1] for _, each in groups)), NO_TOKEN)
        for some, each in groups:
            found[some, : each.shape[1]] = each
        return list(found.T)

    @property
    def wants_logits(self) -> bool:
        """True if a rule changes logits, and not log-probabilities."""
        return self.on_logits and any(isinstance(rule, RepetitionPenalty) for rule in self.rules)

    def of_logits(
        self,
        logits: Float[Tensor, "rows vocab"],
        rows: HypothesisRows,
        constraints: RequestConstraints,
        rank: Ranking,
    ) -> SelectedTokens:
        """The next tokens that `rank` selects by these logits."""
        shift = logits.logsumexp(dim=1, keepdim=True) if self.wants_logits else None
        return self.choose(logits.log_softmax(dim=1), rows, constraints, rank, shift)

    def choose(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        rows: HypothesisRows,
        constraints: RequestConstraints,
        rank: Ranking,
        shift: Float[Tensor, "rows 1"] | None = None,
    ) -> SelectedTokens:
        """The next tokens that `rank` selects by these log-probabilities, which are changed in place."""
        if rows.alternatives is not None:
            rows.alternatives.rank(log_probs)
        prepared = self.prepare(log_probs, rows, constraints, shift)
        return self.settle(prepared, rows.live(), *rank(prepared.log_probs))

    def prepare(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        rows: HypothesisRows,
        constraints: RequestConstraints,
        shift: Float[Tensor, "rows 1"] | None = None,
    ) -> NextTokenScores:
        """The scores of the next tokens, after the rules and forced tokens."""
        if constraints.is_free(rows):
            own = log_probs.clone() if self.changes_scores else None
            fallback_log_probs = log_probs[:, self.eos_id].clone()
            self._rule(log_probs, rows, constraints, shift)
            return NextTokenScores(
                log_probs,
                own,
                torch.full_like(fallback_log_probs, self.eos_id, dtype=torch.int64),
                fallback_log_probs,
            )
        forced = constraints.forced(rows)
        forced_rows = np.flatnonzero(forced != FREE)
        fallback = torch.from_numpy(np.where(forced == FREE, self.eos_id, forced)).to(log_probs.device)
        fallback_log_probs = log_probs.gather(1, fallback[:, None])[:, 0]
        own = log_probs.clone() if self.changes_scores else None
        self._rule(log_probs, rows, constraints, shift)
        if len(forced_rows):
            where = torch.from_numpy(forced_rows).to(log_probs.device)
            counted = rows.lengths[forced_rows] >= constraints.uncounted[rows.sentence[forced_rows]]
            counts = torch.from_numpy(counted).to(fallback_log_probs)  # a prompt has probability 1
            forced_to = fallback_log_probs[where] * counts
            log_probs[where] = -torch.inf
            log_probs[where, fallback[where]] = forced_to
            if own is not None:
                own[where, fallback[where]] = forced_to
        return NextTokenScores(log_probs, own, fallback, fallback_log_probs)

    def settle(
        self,
        prepared: NextTokenScores,
        live: Int64[np.ndarray, " live"],
        values: Float64[np.ndarray, "rows size"],
        ids: Int64[np.ndarray, "rows size"],
    ) -> SelectedTokens:
        """The tokens with the model's own log-probabilities; the end token where all are forbidden."""
        stuck = without_choice(live, values)
        if len(stuck):
            values[stuck, 0] = prepared.fallback_log_probs.cpu().numpy()[stuck]
            ids[stuck, 0] = prepared.fallback.cpu().numpy()[stuck]
        if prepared.own is None:
            return SelectedTokens(values, ids, values)
        own = prepared.own.gather(1, torch.from_numpy(ids).to(prepared.own.device))
        return SelectedTokens(values, ids, own.cpu().numpy().astype(np.float64))

    def _rule(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        rows: HypothesisRows,
        constraints: RequestConstraints,
        shift: Float[Tensor, "rows 1"] | None,
    ) -> None:
        for rule in self.rules:
            if type(rule) is BannedTokens:
                rule(log_probs, NOTHING_GENERATED)
            elif (rows.lengths == rows.length).all():
                generated = self._generated(rows, constraints, slice(None), rows.length, shift)
                apply_rule(rule, log_probs, generated)
            else:
                for some, length in rows.groups():  # a rule reads tokens of one length
                    of_group = log_probs[where := torch.from_numpy(some).to(log_probs.device)]
                    own_shift = None if shift is None else shift[where]
                    generated = self._generated(rows, constraints, some, length, own_shift)
                    apply_rule(rule, of_group, generated)
                    log_probs[where] = of_group
        if own := own_rules(self.rules):
            live = rows.live()
            first = live[rows.lengths[live] == constraints.prefix_lengths[rows.sentence[live]]]
            after = log_probs[torch.from_numpy(first).to(log_probs.device)]
            warn_of_empty_texts(own, after, (self.eos_id, *self.ends))

    def _generated(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        some: Int64[np.ndarray, " some"] | slice,
        length: int,
        shift: Float[Tensor, "some 1"] | None,
    ) -> GeneratedTokens:
        """The tokens of some rows, which have this length."""
        return GeneratedTokens(
            torch.from_numpy(rows.ids[some, :length]),
            prefix_lengths=constraints.prefix_lengths,
            sources=lambda: constraints.sources,
            sentence=rows.sentence[some],
            shift=shift,
        )


def names_tokens(rule: Rule) -> bool:
    """True if the rule forbids only tokens that it names; a subclass of another `__call__` may do more."""
    return type(rule) is BannedTokens or (
        isinstance(rule, BanningRule) and type(rule).__call__ is BanningRule.__call__
    )


def after_all_steps(steps: SearchSteps) -> list[list[Hypothesis]]:
    """What a search returns after all of its steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def drop(rows: HypothesisRows, finished: Int64[np.ndarray, " finished"]) -> None:
    """Free these rows."""
    if len(finished):
        kept = np.setdiff1d(rows.live(), finished)
        rows.select(kept, rows.rank[kept])
