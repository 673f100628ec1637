"""An answer as it grows, token by token."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from regard.data.tokenizer import Tokenizer
from regard.decoding.batches import deterministic
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.step import Stepper
from regard.decoding.strategy import Walk
from regard.models.model import Model
from regard.verbs.looking.pieces import pieces
from regard.verbs.looking.run import Said

Turn = Callable[[], AbstractContextManager[Any]]  # what each step is done in: the model is shared


def said(
    walk: Walk,
    stepper: Callable[[], Stepper],
    asked: Request,
    tokenizer: Tokenizer,
    model: Model,
    turn: Turn,
) -> Iterator[Said]:
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
            yield Said(token=token, id=number, log_prob=float(rows.token_log_probs[live[0], -1]))
