"""Several steps of a search or of sampling by one call of the stepper, until the search has to decide.

For a single sentence the search in Python takes longer than the model. The results are the same, to the bit.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float64

from regard.decoding.base_search import Search
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.request_constraints import RequestConstraints
from regard.decoding.rows import SPARE, HypothesisRows
from regard.decoding.rules import NO_TOKEN, BannedTokens, MinimumLength
from regard.fast.native.sampling import Filters
from regard.fast.native.search import EndedTokens, SearchState

MOST_STEPS = 16  # of one call
MOST_CANDIDATES = 8192  # of all rows of a beam: the kernel keeps them on its stack
MOST_ROWS = 1024  # with more the model takes much longer than the search


@dataclass(frozen=True, kw_only=True)
class SentenceBeam:
    """The beam of one sentence, and what decides whether a hypothesis stays in it.

    Attributes:
        size: the size of the beam.
        most_ends: how many hypotheses may end before the search has to decide.
        drops: True if a hypothesis is dropped as soon as log-probability / `greatest` is no more than `bar`.
        greatest: the length penalty of the greatest length, a divisor of log-probabilities.
        bar: the best score of the hypotheses that have ended; minus infinity if none has.
    """

    size: int
    most_ends: int
    drops: bool
    greatest: float
    bar: float


@dataclass(frozen=True, kw_only=True)
class EndedHypothesis:
    """A hypothesis that ended, its sentence, and its rank among those of the sentence."""

    sentence: int
    rank: int
    hypothesis: Hypothesis


@dataclass(frozen=True, kw_only=True)
class SampledSteps:
    """How the next tokens are sampled: the filters, and the noise of so many steps."""

    filters: Filters
    noise: Callable[[int], Float64[np.ndarray, "steps rows"]]


def run_steps(
    search: Search,
    rows: HypothesisRows,
    constraints: RequestConstraints,
    *,
    candidates: int,
    beam: SentenceBeam | None = None,
    sampled: SampledSteps | None = None,
) -> list[EndedHypothesis]:
    """Continue all rows by as many steps as the stepper can do at once; the search itself does the next one.

    Nothing happens if the stepper has no such steps for this search: for one with rules other than banned
    tokens and a least length, with stop texts, or with a forced token now, for instance.

    Args:
        candidates: how many next tokens of each row the search ranks.
        beam: the beam that the rows are; None if each row is a hypothesis by itself.
        sampled: how the next tokens are sampled; None if the most probable ones are taken.

    Returns:
        The hypotheses that ended, in the order in which they did.
    """
    stepper = rows.searching
    if stepper is None or not rows.may_take_steps() or not _is_known(search, rows, constraints, beam):
        return []
    steps = min(MOST_STEPS, constraints.soonest - rows.length)
    ends, same = _banned_ends(search, rows, constraints, handed_over=sampled is None)
    banned, steps = [*search.never, *ends], min(steps, same)
    if not steps:
        return []
    ranked = candidates if sampled else candidates + len(banned)
    if (beam.size if beam else 1) * ranked > MOST_CANDIDATES:
        return []
    state = SearchState(
        last=rows.last(search.bos_id),
        log_probs=torch.from_numpy(rows.log_prob),
        ranks=torch.from_numpy(rows.rank),
        ends=(search.eos_id, *search.ends),
        banned=banned,
        asked=search.eos_id,
        candidates=ranked,
        filters=sampled.filters if sampled else None,
        noise=torch.from_numpy(sampled.noise(steps)) if sampled else None,
    )
    if beam is not None:
        state = _with_beam(state, search, beam, _counted(rows, constraints), steps)
    if (taken := stepper.run_steps(state, steps)) is None:
        return []
    ended = [_finished(search, rows, constraints, each) for each in taken.ended]
    rows.add_steps(taken)
    return ended


def _is_known(
    search: Search, rows: HypothesisRows, constraints: RequestConstraints, beam: SentenceBeam | None
) -> bool:
    """True if the stepper can do the next steps of this search as the search would."""
    sentence = rows.sentence
    return (
        search.stop is None
        and all(type(rule) in (BannedTokens, MinimumLength) for rule in search.rules)
        and (beam is None or (len(sentence) <= beam.size and bool((sentence == sentence[0]).all())))
        and (beam.size if beam else len(sentence)) <= MOST_ROWS
        and SPARE not in sentence
        and constraints.is_free(rows)
        and not bool(constraints.in_prompt(rows).any())
    )


def _banned_ends(
    search: Search, rows: HypothesisRows, constraints: RequestConstraints, *, handed_over: bool
) -> tuple[list[int], int]:
    """The ends that least lengths ban in all rows, NO_TOKEN where they do not; and for how many steps.

    `handed_over`: one step more, whose candidates the search takes without what its rules ban.
    """
    found, steps = list[int](), MOST_STEPS
    for rule in search.rules:
        if isinstance(rule, MinimumLength):
            missing = rule.length + constraints.prefix_lengths[rows.sentence] - rows.lengths
            if missing.min() > 0:
                found += rule.ends
                steps = min(steps, int(missing.min()) + handed_over)
            elif missing.max() <= 0:
                found += [NO_TOKEN] * len(rule.ends)
            else:  # some may end, others may not
                steps = 0
    return found, steps


def _counted(rows: HypothesisRows, constraints: RequestConstraints) -> int:
    """The length of the beam's hypotheses in tokens, without those that do not count, such as a prompt."""
    return rows.length - int(constraints.uncounted[rows.sentence[0]])


def _with_beam(
    state: SearchState, search: Search, beam: SentenceBeam, length: int, steps: int
) -> SearchState:
    """The state with this beam; `length` is that of its hypotheses, in tokens that count."""
    penalties = [search.length_penalty(length + step + 1) for step in range(steps)]
    return replace(
        state,
        size=beam.size,
        most_ends=beam.most_ends,
        penalties=torch.tensor(penalties, dtype=torch.float64) if beam.drops else None,
        greatest=beam.greatest,
        bar=beam.bar,
    )


def _finished(
    search: Search, rows: HypothesisRows, constraints: RequestConstraints, ended: EndedTokens
) -> EndedHypothesis:
    """A hypothesis that ended during the steps; `rows` are as they were before."""
    each = [*rows.log_probs_of(ended.origin), *ended.gains]
    sentence, rank = int(rows.sentence[ended.origin]), int(rows.rank[ended.origin])
    hypothesis = Hypothesis(
        ids=[*rows.ids_of(ended.origin), *ended.tokens],
        log_prob=ended.log_prob,
        score=ended.log_prob / search.length_penalty(len(each) - int(constraints.uncounted[sentence])),
        token_log_probs=each,
    )
    return EndedHypothesis(sentence=sentence, rank=rank, hypothesis=hypothesis)
