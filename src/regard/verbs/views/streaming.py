"""Streams an answer token by token."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from regard.data.tokenizer import Tokenizer
from regard.decoding.base_search import Search
from regard.decoding.batches import deterministic
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.step import Stepper
from regard.models.build import count_parameters
from regard.models.model import Model
from regard.verbs.views.inspected_run import AnswerToken
from regard.verbs.views.pieces import pieces

MAX_STREAM_OPERATIONS = 2e10  # some tenths of a second on a laptop
ModelLock = Callable[[], AbstractContextManager[Any]]  # held during each step: threads share the model


def is_worth_streaming(model: Model, tokens: int, search: Search) -> bool:
    """True if a greedy answer should be streamed before the result of `search` is known.

    Greedy search gives the answer itself. Before a beam search, streaming is extra work, done if it is cheap.
    """
    return isinstance(search, DecodingLoop) or 4.0 * count_parameters(model) * tokens <= MAX_STREAM_OPERATIONS


def stream_tokens(
    loop: DecodingLoop,
    stepper: Callable[[], Stepper],
    request: Request,
    tokenizer: Tokenizer,
    model: Model,
    lock: ModelLock,
) -> Iterator[AnswerToken]:
    """The tokens of a decoding loop as they are chosen, forced ones included, without the end token."""
    with lock(), torch.no_grad(), deterministic([model]):
        found: list[dict[int, Hypothesis]] = [{}]
        steps = loop.steps(stepper(), [request], found)
    while True:
        with lock(), torch.no_grad(), deterministic([model]):  # per step: other threads run in between
            rows = next(steps, None)
        if rows is None:
            return
        unfinished = rows.live()
        if rows.length > request.uncounted and len(unfinished):
            [number] = rows.ids[unfinished[:1], -1].tolist()
            [token] = pieces(tokenizer, [number])
            yield AnswerToken(token=token, id=number, log_prob=float(rows.token_log_probs[unfinished[0], -1]))
