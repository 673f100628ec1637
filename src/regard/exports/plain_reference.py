"""What regard's plain model, without the fast step, outputs for a certificate."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.decoding.base_search import RequestConstraints, Search
from regard.decoding.batches import deterministic, padded
from regard.decoding.continuation import ENDLESS, prompts_of, start, without_prompt
from regard.decoding.hypothesis import Hypothesis, LengthPenalty, Power, Request
from regard.decoding.prompt_stepper import PromptStepper
from regard.decoding.rows import HypothesisRows
from regard.decoding.rules import LengthLimits, Rule
from regard.decoding.search import BeamSearch, Candidates, FinishedHypotheses, GreedySearch
from regard.decoding.step import CacheStepper, ModelStepper
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder

ROWS = 32  # sequences of a batch
MEAN = Power(alpha=1.0)
Ids = list[int]
Item = TypeVar("Item")
Forced = tuple[Ids, Ids]  # what is given (a source, or a prompt), and the ids that follow


@dataclass(frozen=True, kw_only=True)
class ForcedLogProbs:
    """The log-probability of each forced id, that of the end included if there is one."""

    ids: Ids
    log_probs: list[float]


class PlainReference(ABC):
    """A model's own outputs: greedy, by beam search, and the log-probabilities of forced outputs."""

    def __init__(self, model: Any, tokenizers: TokenizerPair) -> None:
        self.model, self.tokenizers = model, tokenizers

    @property
    def _positions(self) -> int:
        return self.model.max_length or sys.maxsize

    @property
    def target(self) -> Tokenizer:
        return self.tokenizers.target

    def outputs(
        self,
        sources: Sequence[Ids],
        size: int,
        max_length: int,
        *,
        length_penalty: LengthPenalty = MEAN,
        rules: tuple[Rule, ...] = (),
    ) -> list[Hypothesis]:
        """The best output of each source: what is as long as it may be is cut.

        By default no token is forbidden, and a score is the mean log-probability of a token, the end
        included. A beam stops when as many hypotheses as its size have finished.
        """
        shared: dict[str, Any] = {
            "limits": self._limits(max_length), "length_penalty": length_penalty, "cut": True, "rules": rules,
            "bos_id": self.target.bos_id, "eos_id": self.target.eos_id,
        }  # fmt: skip
        greedy = size == 1
        search = GreedySearch(**shared) if greedy else EarlyStoppingBeam(size=size, **shared)
        with torch.no_grad(), deterministic([self.model]):
            return [
                found for batch in _batches(sources) for found in self._searched(search, batch, max_length)
            ]

    def log_probs(self, given: Ids, output: Ids, *, ends: bool = True) -> Float[Tensor, "len vocab"]:
        """The log-probabilities of all ids at each position of an output, and after it if it `ends`."""
        [logits] = self._all_logits([(given, output)])
        return logits[: len(output) + ends].log_softmax(dim=-1)

    def _all_logits(self, sequences: Sequence[Forced]) -> Iterator[Float[Tensor, "len vocab"]]:
        """The logits before each id of each output, and after its last."""
        with torch.no_grad(), deterministic([self.model]):
            for batch in _batches(sequences):
                yield from self._logits(batch)

    def score(self, given: Ids, output: Ids, *, ended: bool, length_penalty: LengthPenalty = MEAN) -> float:
        """The score that `outputs` would give an output."""
        ids = [*output, self.target.eos_id] if ended else output
        if not ids:
            return 0.0
        found = self.log_probs(given, output, ends=ended).gather(1, torch.tensor(ids)[:, None])
        return float(found.sum()) / length_penalty(len(ids))

    @abstractmethod
    def forced(self, sequences: Sequence[Forced]) -> list[ForcedLogProbs]:
        """The log-probabilities that the other engine gives too."""

    @abstractmethod
    def _limits(self, max_length: int) -> LengthLimits:
        """The limits of a search for at most `max_length` tokens."""

    @abstractmethod
    def _searched(self, search: Search, sources: Sequence[Ids], max_length: int) -> list[Hypothesis]: ...

    @abstractmethod
    def _logits(self, sequences: Sequence[Forced]) -> Iterator[Float[Tensor, "len vocab"]]:
        """As `_all_logits`, of a batch."""


class TranslationReference(PlainReference):
    """The outputs of an encoder-decoder."""

    model: EncoderDecoder

    def forced(self, sequences: Sequence[Forced]) -> list[ForcedLogProbs]:
        found = []
        for (_, output), logits in zip(sequences, self._all_logits(sequences), strict=True):
            found.append(_forced(logits, [*output, self.target.eos_id]))
        return found

    def _limits(self, max_length: int) -> LengthLimits:
        return LengthLimits(ratio=0.0, offset=max_length, most=max_length)

    def _searched(self, search: Search, sources: Sequence[Ids], max_length: int) -> list[Hypothesis]:
        stepper = _PlainModelStepper(self.model)
        eos_id = self.tokenizers.source.eos_id
        ids = [[*source, eos_id] for source in sources]
        stepper.start(*padded(ids, self.target.pad_id, most=self._positions))
        found = search(stepper, [Request(src_len=len(source)) for source in sources])
        return [each[0] for each in found]

    def _logits(self, sequences: Sequence[Forced]) -> Iterator[Float[Tensor, "len vocab"]]:
        eos_id = self.tokenizers.source.eos_id
        sources = padded(
            [[*given, eos_id] for given, _ in sequences], self.target.pad_id, most=self._positions
        )
        targets, lengths = padded(
            [[self.target.bos_id, *output] for _, output in sequences],
            self.target.pad_id,
            most=self._positions,
        )
        for logits, length in zip(self.model(*sources, targets), lengths, strict=True):
            yield logits[:length]


class ContinuationReference(PlainReference):
    """The outputs of a decoder-only model; what is given begins with <s> if the model knows it."""

    model: DecoderOnly

    def forced(self, sequences: Sequence[Forced]) -> list[ForcedLogProbs]:
        found = []
        from_first = [(given[:1], [*given[1:], *output]) for given, output in sequences]
        for (_, output), logits in zip(from_first, self._all_logits(from_first), strict=True):
            found.append(_forced(logits[:-1], output))
        return found

    def _limits(self, max_length: int) -> LengthLimits:
        return ENDLESS  # each prompt has a limit of its own

    def _searched(self, search: Search, sources: Sequence[Ids], max_length: int) -> list[Hypothesis]:
        prompts = prompts_of(sources, begin_id=None)
        found: dict[int, Hypothesis] = {}
        for read in sorted({prompt.read for prompt in prompts}):  # as many tokens are prefilled
            group = [prompt for prompt in prompts if prompt.read == read]
            stepper = _PlainPromptStepper(self.model)
            start(stepper, group)
            answers = search(stepper, [prompt.request(max_length) for prompt in group])
            for prompt, [best] in zip(group, answers, strict=True):
                found[prompt.number] = without_prompt(best, len(prompt.ids))
        return [found[number] for number in range(len(sources))]

    def _logits(self, sequences: Sequence[Forced]) -> Iterator[Float[Tensor, "len vocab"]]:
        texts = [[*given, *output] for given, output in sequences]
        ids, lengths = padded(texts, self.target.pad_id, most=self._positions)
        for (given, _), logits, length in zip(sequences, self.model(ids), lengths, strict=True):
            yield logits[len(given) - 1 : length]


class EarlyStoppingBeam(BeamSearch):
    """A beam that stops when as many hypotheses as its size have finished.

    Unlike with `early_stopping`, the step of the greatest length finishes all of its hypotheses.
    """

    def continued(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        found: Candidates,
        greatest: Float64[np.ndarray, " sentences"],
        finished: FinishedHypotheses,
    ) -> Bool[np.ndarray, "sentences candidates"]:
        on = self.finish(rows, constraints, found, finished)
        is_last = rows.lengths_by_sentence(len(on)) + 1 >= constraints.longest
        return on & ((finished.ended < self.size) | is_last)[:, None]


class _Plain(CacheStepper):
    """A stepper that never takes the fast step."""

    def begin(self, cache: Any, rows: int) -> None:
        self.cache, self._fast, self.rows = cache, None, rows


class _PlainModelStepper(_Plain, ModelStepper):
    pass


class _PlainPromptStepper(_Plain, PromptStepper):
    pass


def _forced(logits: Float[Tensor, "len vocab"], ids: Ids) -> ForcedLogProbs:
    found = logits.log_softmax(dim=-1).gather(1, torch.tensor(ids)[:, None])[:, 0].tolist()
    return ForcedLogProbs(ids=ids, log_probs=found)


def _batches(sequences: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for first in range(0, len(sequences), ROWS):
        yield sequences[first : first + ROWS]
