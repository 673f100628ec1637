"""Speculative decoding: verify several proposed tokens in one step, and keep those that are right.

Leviathan et al. 2023 and Chen et al. 2023 accept a proposed token at random, so that the distribution stays.
Here the noise of a step belongs to the request (see `sampling.py`), so the next token after each proposed one
is known for certain: a proposal is right or wrong. The text is therefore the same as without proposals, in
sampling as in greedy search.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.base_search import Ranking, RequestConstraints, Search
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.rows import HypothesisRows
from regard.decoding.step import RewindableStepper, Stepper
from regard.errors import ConfigError

MAX_LOOKUP = 3  # tokens before a proposal that are looked up


@runtime_checkable
class Drafter(Protocol):
    """Proposes the next tokens of a text."""

    def begin(self, loop: DecodingLoop, request: Request, sample: int) -> None:
        """Begin a new text."""
        ...

    def propose(self, generated: Sequence[int], count: int) -> list[int]:
        """At most `count` next tokens."""
        ...


class PromptLookup:
    """Proposes what followed the last tokens earlier in the text, its prompt or its source (Saxena 2023).

    Of several places it takes the latest, after as many equal tokens as possible.
    """

    def begin(self, loop: DecodingLoop, request: Request, sample: int) -> None:
        self.source = list(request.source or ())

    def propose(self, generated: Sequence[int], count: int) -> list[int]:
        known = [*self.source, *generated]
        for size in range(min(MAX_LOOKUP, len(generated)), 0, -1):
            last = list(generated[-size:])
            for place in reversed(range(len(known) - size)):
                if known[place : place + size] == last:
                    return known[place + size : place + size + count]
        return []


class DraftModel:
    """Proposals of a smaller model with the same rules and the same noise."""

    def __init__(self, stepper: RewindableStepper, begin: Sequence[int]) -> None:
        """`begin`: the tokens before a text: bos, or none."""
        self.stepper, self.first = stepper, list(begin)

    def begin(self, loop: DecodingLoop, request: Request, sample: int) -> None:
        self.one = SingleRequestLoop(loop, request, sample)
        source = [*(request.source or ()), *([] if request.source is None else [loop.eos_id])]
        self.stepper.start(torch.tensor([source], dtype=torch.int64), torch.tensor([len(source)]))
        self.read: list[int] = []

    def propose(self, generated: Sequence[int], count: int) -> list[int]:
        text = [*self.first, *generated]
        if not text:
            return []
        same = 0
        while same < min(len(self.read), len(text) - 1) and self.read[same] == text[same]:
            same += 1
        self.stepper.cut(same)
        self.read, new, proposed = text[:same], text[same:], []
        for _ in range(count):
            logits = self.stepper.read(torch.tensor([new]))[-1:]
            self.read += new
            token, *_ = self.one.next(logits, [*generated, *proposed])
            if self.one.loop.ends_by(token):
                break
            proposed.append(token)
            new = [token]
        return proposed


class SingleRequestLoop:
    """The decoding loop of a single request: the next token, given logits."""

    def __init__(self, loop: DecodingLoop, request: Request, sample: int) -> None:
        self.loop = loop
        self.constraints = RequestConstraints([request], loop.limits, loop.eos_id)
        self.ranking = loop.ranking([request])
        self.row = SingleRow(sample)

    def next(self, logits: Float[Tensor, "1 vocab"], generated: Sequence[int]) -> tuple[int, float, float]:
        """The token, its score and its log-probability."""
        self.row.set(generated)
        values, ids, own = self.loop.of_logits(logits, self.row, self.constraints, self.ranking(self.row))
        return int(ids[0, 0]), float(values[0, 0]), float(own[0, 0])


class SingleRow(HypothesisRows):
    """A single hypothesis without a stepper."""

    def __init__(self, rank: int) -> None:
        self.sentence, self.rank = np.zeros(1, np.int64), np.array([rank])

    def set(self, generated: Sequence[int], log_probs: Sequence[float] = ()) -> None:
        self._ids = np.array([generated], np.int64)
        self._token_log_probs = np.array([log_probs], np.float64)
        self.length, self.lengths = len(generated), np.array([len(generated)])


@dataclass(frozen=True, kw_only=True)
class SpeculativeDecoding(DecodingLoop):
    """A decoding loop that verifies `tokens` proposed tokens in one step, with a stepper for each request."""

    alone: ClassVar[bool] = True

    loop: DecodingLoop
    drafter: Drafter
    tokens: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens < 1:
            raise ConfigError(f"{self.tokens} tokens are to be proposed at once, but must be 1 or more")

    @classmethod
    def of(cls, loop: DecodingLoop, drafter: Drafter, tokens: int) -> "SpeculativeDecoding":
        """Speculative decoding with the settings of this loop."""
        common = {each.name: getattr(loop, each.name) for each in fields(Search)}
        return cls(**common, loop=loop, drafter=drafter, tokens=tokens)

    def ranking(self, requests: Sequence[Request]) -> Callable[[HypothesisRows], Ranking]:
        return self.loop.ranking(requests)

    def steps(
        self,
        stepper: Stepper,
        requests: Sequence[Request],
        found: list[dict[int, Hypothesis]],
        at_once: bool = False,
    ) -> Iterator[HypothesisRows]:
        assert len(requests) == 1, "one request at a time: requests accept different numbers of tokens"
        if not isinstance(stepper, RewindableStepper):
            raise ConfigError(
                "an ensemble cannot verify proposed tokens", "leave out prompt_lookup and draft_model"
            )
        start = stepper.length
        for sample in range(self.n_best):
            if sample:
                stepper.cut(start)
            yield from self._sampled(stepper, requests[0], sample, found[0])

    def _sampled(
        self, stepper: RewindableStepper, request: Request, sample: int, found: dict[int, Hypothesis]
    ) -> Iterator[HypothesisRows]:
        """The steps of one sample of a request, which goes to `found`."""
        one = SingleRequestLoop(self.loop, request, sample)
        self.drafter.begin(self.loop, request, sample)
        generated = list(request.prefix[: request.begun])
        each, longest = [0.0] * len(generated), int(one.constraints.longest[0])
        difference = stepper.length - len(generated)  # of what is read and what is generated, which stays
        while True:
            forced = list(request.prefix[len(generated) :])
            most = min(self.tokens, longest - len(generated))
            proposed = forced or self.drafter.propose(generated, most)
            last = generated[-1] if generated else self.bos_id
            logits = stepper.read(torch.tensor([[last, *proposed]]))
            for of_place, proposal in zip_longest(logits, proposed):
                token, value, own = one.next(of_place[None], generated)
                if not np.isfinite(value):
                    return
                each.append(own)
                if self.ends_by(token) and len(generated) >= request.uncounted:
                    found[sample] = self._hypothesis(request, generated, each)
                    return
                generated.append(token)
                one.row.set(generated, each)
                yield one.row
                is_longest = self.cut and len(generated) >= longest
                if is_longest or self.has_stop_text(generated, len(request.prefix)):
                    found[sample] = self._hypothesis(request, generated, each)
                    return
                if token != proposal:
                    stepper.cut(difference + len(generated))
                    break

    def _hypothesis(self, request: Request, generated: Sequence[int], each: list[float]) -> Hypothesis:
        score = sum(each) / self.length_penalty(len(each) - request.uncounted)
        return Hypothesis(ids=list(generated), log_prob=sum(each), score=score, token_log_probs=each)
