"""What every search does at a step: it applies rules, says what is forced, sees what has ended."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, LengthPenalty, Power, Request
from regard.decoding.penalties import RepetitionPenalty
from regard.decoding.ranking import TopCandidates
from regard.decoding.rows import SPARE, HypothesisRows
from regard.decoding.rules import NOTHING, BannedTokens, GeneratedTokens, LengthLimits, Rule
from regard.decoding.step import Stepper
from regard.errors import ConfigError, RunError

Ranked = tuple[Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"]]
Ranking = Callable[[Float[Tensor, "rows vocab"]], Ranked]
FREE = -1  # where no token is forced


class SelectedTokens(NamedTuple):
    """Of each row the tokens that a ranking picks, the best first."""

    values: Float64[np.ndarray, "rows size"]  # by which they are ranked
    ids: Int64[np.ndarray, "rows size"]
    own: Float64[np.ndarray, "rows size"]  # the model's log-probabilities: the same, unless a rule weighs


class NextTokenScores(NamedTuple):
    """What may follow in each row."""

    log_probs: Float[Tensor, "rows vocab"]  # as the rules have left them
    own: Float[Tensor, "rows vocab"] | None  # as they were; None: no rule weighs
    held: Int64[Tensor, " rows"]  # the token that a row says if nothing is left to it
    kept: Float[Tensor, " rows"]  # its log-probability


@runtime_checkable
class StopCondition(Protocol):
    """What ends a hypothesis besides its end: that it has said some text, for instance."""

    def __call__(self, given: Sequence[int], said: Sequence[int]) -> bool: ...


class RequestConstraints:
    """What the requests of a batch prescribe: how they begin, and where they end at the latest."""

    def __init__(self, requests: Sequence[Request], limits: LengthLimits, eos_id: int) -> None:
        self.requests, self.eos_id = requests, eos_id
        self.given = np.array([len(request.prefix) for request in requests])
        self.uncounted = np.array([request.uncounted for request in requests])
        self.prefix = np.full((len(requests), int(self.given.max())), FREE)
        for row, request in enumerate(requests):
            self.prefix[row, : len(request.prefix)] = request.prefix
        self.longest: Int64[np.ndarray, " sentences"] = np.array(
            [max(min(limits.longest(each.src_len), each.most), len(each.prefix)) for each in requests]
        )
        self.soonest = int(self.longest.min())
        self._sources: Int64[np.ndarray, "sentences src_len"] | None = None

    def forced(self, rows: HypothesisRows) -> Int64[np.ndarray, " rows"]:
        """The token that each row has to say next; FREE where it may choose."""
        at = rows.length
        tokens = np.where(at >= self.longest, self.eos_id, FREE)
        if at < self.prefix.shape[1]:
            tokens = np.where(self.prefix[:, at] == FREE, tokens, self.prefix[:, at])
        return np.where(rows.sentence == SPARE, FREE, tokens[rows.sentence])

    def is_free(self, at: int) -> bool:
        """Whether no row is told what to say after so many tokens."""
        return self.prefix.shape[1] <= at < self.soonest

    @property
    def sources(self) -> Int64[np.ndarray, "sentences src_len"]:
        """A row of ids for each request, padded with NOTHING."""
        if self._sources is None:
            each = [request.source or () for request in self.requests]
            self._sources = np.full((len(each), max(map(len, each))), NOTHING)
            for row, source in zip(self._sources, each, strict=True):
                row[: len(source)] = source
        return self._sources


@dataclass(frozen=True, kw_only=True)
class Search(ABC):
    """What every search is given."""

    on_logits: ClassVar[bool] = False  # what rules weigh: logits, or log-probabilities
    alone: ClassVar[bool] = False  # whether each request needs a stepper of its own

    limits: LengthLimits = field(default_factory=LengthLimits)
    rules: tuple[Rule, ...] = ()
    length_penalty: LengthPenalty = field(default_factory=lambda: Power(alpha=0.0))
    n_best: int = 1
    bos_id: int = 2
    eos_id: int = 3
    ends: tuple[int, ...] = ()  # other tokens that end a hypothesis
    stop: StopCondition | None = None
    cut: bool = False  # at its greatest length a hypothesis is whole as it is; else it is told to end

    def __post_init__(self) -> None:
        if self.n_best < 1:
            raise ConfigError(f"n_best is {self.n_best}, but must be at least 1")

    @abstractmethod
    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        """The best hypotheses of each request; the stepper has read their sources, a row each.

        A list is shorter than n_best where fewer hypotheses are possible.
        """

    @property
    def weighs(self) -> bool:
        """Whether what is searched for differs from what the model says."""
        return any(rule.weighs for rule in self.rules)

    def rows(self, stepper: Stepper, requests: Sequence[Request]) -> HypothesisRows:
        """A row for each request, where its search begins."""
        said = [request.prefix[: request.said] for request in requests]
        return HypothesisRows(stepper, len(requests), np.array(said, np.int64).reshape(len(said), -1))

    def is_end(self, ids: Int64[np.ndarray, "*shape"]) -> Bool[np.ndarray, "*shape"]:
        """Which of these tokens end a hypothesis."""
        return np.isin(ids, (self.eos_id, *self.ends)) if self.ends else ids == self.eos_id

    def ends_by(self, token: int) -> bool:
        """The same of one token."""
        return token == self.eos_id or token in self.ends

    def hypothesis(
        self, rows: HypothesisRows, course: RequestConstraints, row: int, value: float, own: float
    ) -> Hypothesis:
        """What sits in a row, ended by a token of this value and this log-probability."""
        each = [*rows.token_log_probs[row].tolist(), own]
        return self._finished(rows, course, row, float(rows.log_prob[row]) + value, each)

    def stopped(self, rows: HypothesisRows, course: RequestConstraints, row: int) -> Hypothesis:
        """What sits in a row, as it is."""
        each = rows.token_log_probs[row].tolist()
        return self._finished(rows, course, row, float(rows.log_prob[row]), each)

    def _finished(
        self, rows: HypothesisRows, course: RequestConstraints, row: int, total: float, each: list[float]
    ) -> Hypothesis:
        length = len(each) - int(course.uncounted[rows.sentence[row]])
        return Hypothesis(
            ids=rows.ids[row].tolist(),
            log_prob=sum(each) if self.weighs else total,
            score=total / self.length_penalty(length),
            token_log_probs=each,
        )

    def at_a_stop(self, rows: HypothesisRows, course: RequestConstraints) -> Int64[np.ndarray, " stopped"]:
        """The rows that have just said what ends them, or as much as they may."""
        live = rows.live()
        over = np.zeros(len(live), bool)
        if self.cut:
            over |= rows.length >= course.longest[rows.sentence[live]]
        if self.stop is not None:
            over |= np.array([self._has_said_a_stop(rows, course, row) for row in live.tolist()], bool)
        return live[over]

    def _has_said_a_stop(self, rows: HypothesisRows, course: RequestConstraints, row: int) -> bool:
        ids, given = rows.ids[row].tolist(), int(course.given[rows.sentence[row]])
        return self.stop is not None and len(ids) > given and self.stop(ids[:given], ids[given:])

    def next_tokens(self, rows: HypothesisRows, course: RequestConstraints, rank: Ranking) -> SelectedTokens:
        """One step: of what may follow in each row, the tokens that `rank` picks, the best first."""
        if isinstance(rank, TopCandidates):
            chosen = self.at_once(rows, course, rank.size)
            if chosen is not None:
                return chosen
        if not self.wants_logits:
            return self.choose(rows.step(self.bos_id), rows, course, rank)
        return self.of_logits(rows.logits(self.bos_id), rows, course, rank)

    def at_once(self, rows: HypothesisRows, course: RequestConstraints, size: int) -> SelectedTokens | None:
        """The same for the `size` likeliest, if no rule looks further and there is a short way to them.

        Whether it is taken does not depend on the batch: last bits may differ from those of the long way.
        """
        if not all(isinstance(rule, BannedTokens) for rule in self.rules):
            return None
        banned = sorted(
            {token for rule in self.rules if isinstance(rule, BannedTokens) for token in rule.ids}
        )
        free = course.is_free(rows.length)
        forced = np.full(len(rows.sentence), FREE) if free else course.forced(rows)
        held = np.where(forced == FREE, self.eos_id, forced)
        found = rows.likeliest(self.bos_id, size + len(banned), held)
        if found is None:
            return None
        values, ids, kept = found
        values, ids = without(banned, size, values, ids)
        told = np.flatnonzero(forced != FREE)
        if len(told):
            counts = rows.length >= course.uncounted[rows.sentence[told]]
            values[told], ids[told, 0] = -np.inf, held[told]
            values[told, 0] = kept[told] * counts
        stuck = left_with_nothing(rows.live(), values)
        values[stuck, 0], ids[stuck, 0] = kept[stuck], held[stuck]
        return SelectedTokens(values, ids, values)

    @property
    def wants_logits(self) -> bool:
        """Whether a rule weighs logits, and not log-probabilities."""
        return self.on_logits and any(isinstance(rule, RepetitionPenalty) for rule in self.rules)

    def of_logits(
        self,
        logits: Float[Tensor, "rows vocab"],
        rows: HypothesisRows,
        course: RequestConstraints,
        rank: Ranking,
    ) -> SelectedTokens:
        """`next_tokens` of these logits."""
        shift = logits.logsumexp(dim=1, keepdim=True) if self.wants_logits else None
        return self.choose(logits.log_softmax(dim=1), rows, course, rank, shift)

    def choose(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        rows: HypothesisRows,
        course: RequestConstraints,
        rank: Ranking,
        shift: Float[Tensor, "rows 1"] | None = None,
    ) -> SelectedTokens:
        """The same for given log-probabilities, which are changed in place."""
        prepared = self.prepare(log_probs, rows, course, shift)
        return self.settle(prepared, rows.live(), *rank(prepared.log_probs))

    def prepare(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        rows: HypothesisRows,
        course: RequestConstraints,
        shift: Float[Tensor, "rows 1"] | None = None,
    ) -> NextTokenScores:
        """What may follow in each row, after the rules and what is forced."""
        if course.is_free(rows.length):
            own = log_probs.clone() if self.weighs else None
            kept = log_probs[:, self.eos_id].clone()
            self._rule(log_probs, rows, course, shift)
            return NextTokenScores(
                log_probs, own, torch.full_like(kept, self.eos_id, dtype=torch.int64), kept
            )
        forced = course.forced(rows)
        told = np.flatnonzero(forced != FREE)
        held = torch.from_numpy(np.where(forced == FREE, self.eos_id, forced)).to(log_probs.device)
        kept = log_probs.gather(1, held[:, None])[:, 0]
        own = log_probs.clone() if self.weighs else None
        self._rule(log_probs, rows, course, shift)
        if len(told):
            where = torch.from_numpy(told).to(log_probs.device)
            counts = torch.from_numpy(rows.length >= course.uncounted[rows.sentence[told]])
            forced_to = kept[where] * counts.to(kept)  # a prompt is certain
            log_probs[where] = -torch.inf
            log_probs[where, held[where]] = forced_to
            if own is not None:
                own[where, held[where]] = forced_to
        return NextTokenScores(log_probs, own, held, kept)

    def settle(
        self,
        prepared: NextTokenScores,
        live: Int64[np.ndarray, " live"],
        values: Float64[np.ndarray, "rows size"],
        ids: Int64[np.ndarray, "rows size"],
    ) -> SelectedTokens:
        """The same tokens with the model's own log-probabilities; the end, where nothing was left."""
        stuck = left_with_nothing(live, values)
        if len(stuck):
            values[stuck, 0] = prepared.kept.cpu().numpy()[stuck]
            ids[stuck, 0] = prepared.held.cpu().numpy()[stuck]
        if prepared.own is None:
            return SelectedTokens(values, ids, values)
        own = prepared.own.gather(1, torch.from_numpy(ids).to(prepared.own.device))
        return SelectedTokens(values, ids, own.cpu().numpy().astype(np.float64))

    def _rule(
        self,
        log_probs: Float[Tensor, "rows vocab"],
        rows: HypothesisRows,
        course: RequestConstraints,
        shift: Float[Tensor, "rows 1"] | None,
    ) -> None:
        ids = torch.from_numpy(rows.ids)
        said = GeneratedTokens(
            ids, given=course.given, sources=lambda: course.sources, sentence=rows.sentence, shift=shift
        )
        for rule in self.rules:
            rule(log_probs, said)


@dataclass(frozen=True, kw_only=True)
class DecodingLoop(Search):
    """`n_best` hypotheses of each request, each on its own way, always to the first token of a ranking."""

    on_logits: ClassVar[bool] = True

    @abstractmethod
    def ranking(self, requests: Sequence[Request]) -> Callable[[HypothesisRows], Ranking]:
        """How the next tokens are ranked, step by step."""

    def __call__(self, stepper: Stepper, requests: Sequence[Request]) -> list[list[Hypothesis]]:
        found: list[dict[int, Hypothesis]] = [{} for _ in requests]
        for _ in self.steps(stepper, requests, found):
            pass
        return [[each[place] for place in sorted(each)] for each in found]

    def steps(
        self, stepper: Stepper, requests: Sequence[Request], found: list[dict[int, Hypothesis]]
    ) -> Iterator[HypothesisRows]:
        """Step by step, what is said so far; finished hypotheses go to `found`, by request and sample."""
        course, rank = RequestConstraints(requests, self.limits, self.eos_id), self.ranking(requests)
        rows = self.rows(stepper, requests)
        rows.select(
            np.repeat(np.arange(len(requests)), self.n_best), np.tile(np.arange(self.n_best), len(requests))
        )
        while len(live := rows.live()):
            chosen = self.next_tokens(rows, course, rank(rows))
            values, ids, own = (part[live, 0] for part in chosen)
            possible, ends = np.isfinite(values), self.is_end(ids)
            done = possible & ends
            for row, value in zip(live[done].tolist(), own[done].tolist(), strict=True):
                ended = self.hypothesis(rows, course, row, value, value)
                found[rows.sentence[row]][int(rows.rank[row])] = ended
            on = possible & ~ends
            seats = rows.select(live[on], rows.rank[live[on]])
            rows.append(seats, ids[on], own[on])
            yield rows
            stopped = self.at_a_stop(rows, course)
            for row in stopped.tolist():
                found[rows.sentence[row]][int(rows.rank[row])] = self.stopped(rows, course, row)
            drop(rows, stopped)


def without(
    banned: Sequence[int],
    size: int,
    values: Float64[np.ndarray, "rows candidates"],
    ids: Int64[np.ndarray, "rows candidates"],
) -> tuple[Float64[np.ndarray, "rows size"], Int64[np.ndarray, "rows size"]]:
    """The first `size` of each row that are not banned."""
    barred = np.zeros(ids.shape, bool)
    for token in banned:
        barred |= ids == token
    if barred.any():
        order = barred.argsort(axis=1, kind="stable")
        values = np.where(barred, -np.inf, values)  # where all others are fewer than `size`
        values, ids = np.take_along_axis(values, order, 1), np.take_along_axis(ids, order, 1)
    return values[:, :size], ids[:, :size]


def left_with_nothing(
    live: Int64[np.ndarray, " live"], values: Float64[np.ndarray, "rows size"]
) -> Int64[np.ndarray, " stuck"]:
    """The rows to which the rules have left nothing but the end.

    Raises:
        RunError: there is no telling, for the model answers NaN.
    """
    if np.isnan(values[live]).any():
        raise RunError(
            "the model answers NaN",
            "its weights are damaged, or its training diverged before they were saved",
        )
    return live[values[live, 0] == -np.inf]


def drop(rows: HypothesisRows, gone: Int64[np.ndarray, " gone"]) -> None:
    """Free these rows."""
    if len(gone):
        kept = np.setdiff1d(rows.live(), gone)
        rows.select(kept, rows.rank[kept])
