"""Several steps of greedy or beam search by one call of the stepper, as long as nothing ends or is dropped.

For a single sentence the search in Python takes longer than the model. The results are the same, to the bit.
"""

import numpy as np
import torch

from regard.decoding.base_search import Search
from regard.decoding.request_constraints import RequestConstraints
from regard.decoding.rows import SPARE, HypothesisRows
from regard.decoding.rules import BannedTokens
from regard.decoding.step import SearchingStepper
from regard.fast.native.search import SearchState

MOST_STEPS = 16
MOST_ROWS = 64  # with more rows the kernels take longer, and a hypothesis ends at most steps


def run_steps(
    search: Search,
    rows: HypothesisRows,
    constraints: RequestConstraints,
    *,
    size: int,
    candidates: int,
    bar: float = -np.inf,
    greatest: float = 1.0,
) -> None:
    """Continue all rows by as many steps as the stepper can do at once; the next step is the search's own.

    Nothing happens if the search has rules, prefixes or stop texts that the stepper does not know.

    Args:
        size: hypotheses of a sentence; a beam must be alone.
        candidates: next tokens of a row that the search ranks.
        bar: a hypothesis is dropped if its log-probability over `greatest` does not exceed it.
    """
    stepper, sentence = rows.stepper, rows.sentence
    if (
        not isinstance(stepper, SearchingStepper)
        or not size <= len(sentence) <= MOST_ROWS
        or search.stop is not None
        or not all(type(rule) is BannedTokens for rule in search.rules)
        or not constraints.is_free(rows)
        or (sentence == SPARE).any()
        or (rows.lengths < constraints.uncounted[sentence]).any()
        or (size > 1 and (len(sentence) != size or (sentence != sentence[0]).any()))
    ):
        return
    steps = min(MOST_STEPS, constraints.soonest - rows.length)
    banned = sorted({token for rule in search.rules if isinstance(rule, BannedTokens) for token in rule.ids})
    groups = len(sentence) // size
    state = SearchState(
        size=size,
        last=rows.last(search.bos_id),
        ranks=torch.from_numpy(rows.rank),
        log_probs=torch.from_numpy(rows.log_prob),
        bars=torch.full((groups,), bar, dtype=torch.float64),
        greatest=torch.full((groups,), greatest, dtype=torch.float64),
        ends=(search.eos_id, *search.ends),
        banned=banned,
        asked=torch.full((len(sentence),), search.eos_id),
        candidates=candidates + len(banned),
    )
    if (taken := stepper.run_steps(state, steps)) is not None:
        rows.take(taken)
