"""Speculation: several guessed tokens are read at once; those that would be said anyway are kept.

Leviathan et al. 2023 and Chen et al. 2023 accept a guess by chance so that the distribution stays. Here the
chance of a step is the request's own (see `sampling.py`), so what the walk says after each guessed token is
known for certain: a guess is right or it is not. The text is therefore the same as without guesses, not only
as likely; and greedy search is no other case.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from regard.decoding.base_search import DecodingLoop, Ranking, RequestConstraints, Search
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.rows import HypothesisRows
from regard.decoding.step import Reader, Stepper
from regard.errors import ConfigError

LONGEST = 3  # tokens before a guess that are looked up
SHORTEST = 1


@runtime_checkable
class Drafter(Protocol):
    """Whoever guesses how a text goes on."""

    def begin(self, walk: DecodingLoop, request: Request, sample: int) -> None:
        """A new text is to be guessed."""
        ...

    def guess(self, said: Sequence[int], count: int) -> list[int]:
        """At most `count` tokens after what was said."""
        ...


class PromptLookup:
    """What followed the last tokens where they stood before, in the text, its prompt or its source.

    (Saxena 2023.) Of several places the latest, after as many equal tokens as possible.
    """

    def begin(self, walk: DecodingLoop, request: Request, sample: int) -> None:
        self.source = list(request.source or ())

    def guess(self, said: Sequence[int], count: int) -> list[int]:
        known = [*self.source, *said]
        for size in range(min(LONGEST, len(said)), SHORTEST - 1, -1):
            last = list(said[-size:])
            for place in range(len(known) - size - 1, -1, -1):
                if known[place : place + size] == last:
                    return known[place + size : place + size + count]
        return []


class DraftModel:
    """Guesses of a smaller model that walks by the same rules, with the same chance."""

    def __init__(self, stepper: Reader, begin: Sequence[int]) -> None:
        """`begin`: what the model reads before a text: bos, or nothing."""
        self.stepper, self.first = stepper, list(begin)

    def begin(self, walk: DecodingLoop, request: Request, sample: int) -> None:
        self.one = SingleRequestLoop(walk, request, sample)
        source = [*(request.source or ()), *([] if request.source is None else [walk.eos_id])]
        self.stepper.start(torch.tensor([source], dtype=torch.int64), torch.tensor([len(source)]))
        self.read: list[int] = []

    def guess(self, said: Sequence[int], count: int) -> list[int]:
        text = [*self.first, *said]
        if not text:
            return []
        same = 0
        while same < min(len(self.read), len(text) - 1) and self.read[same] == text[same]:
            same += 1
        self.stepper.cut(same)
        self.read, new, guessed = text, text[same:], []
        for _ in range(count):
            logits = self.stepper.read(torch.tensor([new]))[-1:]
            token, value, _ = self.one.next(logits, [*said, *guessed])
            if not np.isfinite(value) or self.one.walk.ends_by(token):
                break
            guessed.append(token)
            new = [token]
            self.read = [*text, *guessed[:-1]]
        return guessed


class SingleRequestLoop:
    """A request alone, and one walk of it: what the walk says next, given logits."""

    def __init__(self, walk: DecodingLoop, request: Request, sample: int) -> None:
        self.walk = walk
        self.course = RequestConstraints([request], walk.limits, walk.eos_id)
        self.ranking = walk.ranking([request])
        self.row = SingleRow(sample)

    def next(self, logits: Float[Tensor, "1 vocab"], said: Sequence[int]) -> tuple[int, float, float]:
        """The token, what it is ranked by and its log-probability."""
        self.row.says(said)
        values, ids, own = self.walk.of_logits(logits, self.row, self.course, self.ranking(self.row))
        return int(ids[0, 0]), float(values[0, 0]), float(own[0, 0])


class SingleRow(HypothesisRows):
    """A single hypothesis, which no stepper holds."""

    def __init__(self, rank: int) -> None:
        self.sentence, self.rank = np.zeros(1, np.int64), np.array([rank])
        self.ids = np.zeros((1, 0), np.int64)

    def says(self, said: Sequence[int]) -> None:
        self.ids = np.array([said], np.int64).reshape(1, -1)


@dataclass(frozen=True, kw_only=True)
class SpeculativeDecoding(DecodingLoop):
    """A walk that reads `tokens` guesses of a drafter at once. Each request has a stepper of its own."""

    alone: ClassVar[bool] = True

    walk: DecodingLoop
    drafter: Drafter
    tokens: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens < 1:
            raise ConfigError(f"{self.tokens} tokens are to be guessed at once, but must be 1 or more")

    @classmethod
    def of(cls, walk: DecodingLoop, drafter: Drafter, tokens: int) -> "SpeculativeDecoding":
        """With everything that the walk was given."""
        common = {each.name: getattr(walk, each.name) for each in fields(Search)}
        return cls(**common, walk=walk, drafter=drafter, tokens=tokens)

    def ranking(self, requests: Sequence[Request]) -> Callable[[HypothesisRows], Ranking]:
        return self.walk.ranking(requests)

    def steps(
        self, stepper: Stepper, requests: Sequence[Request], found: list[dict[int, Hypothesis]]
    ) -> Iterator[HypothesisRows]:
        assert len(requests) == 1, "one at a time: guesses of one are right where those of another are not"
        if not isinstance(stepper, Reader):
            raise ConfigError("guesses are read by one model, not by an ensemble", "leave out the guesses")
        start = stepper.length
        for sample in range(self.n_best):
            if sample:
                stepper.cut(start)
            yield from self._one(stepper, requests[0], sample, found[0])

    def _one(
        self, stepper: Reader, request: Request, sample: int, found: dict[int, Hypothesis]
    ) -> Iterator[HypothesisRows]:
        one = SingleRequestLoop(self.walk, request, sample)
        self.drafter.begin(self.walk, request, sample)
        said = list(request.prefix[: request.said])
        each, longest = [0.0] * len(said), int(one.course.longest[0])
        while True:
            forced = list(request.prefix[len(said) :])
            guess = forced or self.drafter.guess(said, self.tokens)[: longest - len(said)]
            last = said[-1] if said else self.bos_id
            logits = stepper.read(torch.tensor([[last, *guess]]))
            for place in range(len(guess) + 1):
                token, value, own = one.next(logits[place : place + 1], said)
                if not np.isfinite(value):
                    return
                each.append(own)
                if self.ends_by(token):
                    found[sample] = self._hypothesis(request, said, each)
                    return
                said.append(token)
                one.row.says(said)
                yield one.row
                if self._is_over(request, said, longest):
                    found[sample] = self._hypothesis(request, said, each)
                    return
                if place == len(guess) or token != guess[place]:
                    stepper.cut(stepper.length - (len(guess) - place))
                    break

    def _is_over(self, request: Request, said: list[int], longest: int) -> bool:
        """Whether this has just said what ends it, or as much as it may."""
        if self.cut and len(said) >= longest:
            return True
        given = len(request.prefix)
        return self.stop is not None and len(said) > given and self.stop(said[:given], said[given:])

    def _hypothesis(self, request: Request, said: Sequence[int], each: list[float]) -> Hypothesis:
        score = sum(each) / self.length_penalty(len(each) - request.uncounted)
        return Hypothesis(ids=list(said), log_prob=sum(each), score=score, token_log_probs=each)
