"""An answer as it grows, token by token."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from regard.data.tokenizer import Tokenizer
from regard.decoding.base_search import DecodingLoop, Search
from regard.decoding.batches import deterministic
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.step import Stepper
from regard.models.build import count_parameters
from regard.models.model import Model
from regard.verbs.views.inspected_run import AnswerToken
from regard.verbs.views.pieces import pieces

CHEAP = 2e10  # operations: some tenths of a second of a laptop's
ModelTurn = Callable[[], AbstractContextManager[Any]]  # what each step is done in: the model is shared


def is_worth_streaming(model: Model, tokens: int, search: Search) -> bool:
    """Whether to say the likeliest answer to so many tokens before `search` gives the real one.

    It is work of its own: beside a beam it is done where it costs little, and greedy decoding says just this.
    """
    return isinstance(search, DecodingLoop) or 4.0 * count_parameters(model) * tokens <= CHEAP


def stream_tokens(
    walk: DecodingLoop,
    stepper: Callable[[], Stepper],
    asked: Request,
    tokenizer: Tokenizer,
    model: Model,
    turn: ModelTurn,
) -> Iterator[AnswerToken]:
    """The tokens that a walk says, its forced ones too, each as soon as it is said; the end is not shown."""
    with turn(), torch.no_grad(), deterministic([model]):
        found: list[dict[int, Hypothesis]] = [{}]
        steps = walk.steps(stepper(), [asked], found)
    while True:
        with turn(), torch.no_grad(), deterministic([model]):  # for the step alone: others go on in between
            rows = next(steps, None)
        if rows is None:
            return
        live = rows.live()
        if rows.length > asked.uncounted and len(live):
            [number] = rows.ids[live[:1], -1].tolist()
            [token] = pieces(tokenizer, [number])
            yield AnswerToken(token=token, id=number, log_prob=float(rows.token_log_probs[live[0], -1]))
