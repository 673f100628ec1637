"""Continuing prompts with a decoder-only model: prefill, then search or sampling.

A continuation does not depend on its batch: how many tokens of a prompt are prefilled depends on its length
alone, and the rest is forced token by token. Prompts of which that number differs share a batch only if the
model has a fast decoding step, in which each row has a length of its own.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from regard.decoding.assembly import assembled, score_by
from regard.decoding.base_search import Search
from regard.decoding.batches import LENGTH_MULTIPLE, deterministic
from regard.decoding.controls import Controls
from regard.decoding.decoding_loop import DecodingLoop
from regard.decoding.hypothesis import Hypothesis, Request, noise_of
from regard.decoding.phrases import Words
from regard.decoding.prompt_stepper import PromptStepper, prompt_stepper
from regard.decoding.rules import LengthLimits
from regard.decoding.running_search import can_join, run_together
from regard.decoding.special_tokens import SpecialTokenIds
from regard.decoding.speculative import Drafter
from regard.errors import ConfigError, DataError
from regard.fast.decoding_step import fast_step
from regard.models.decoder_only import DecoderOnly

BATCH_TOKENS = 16_384  # of prompts and what is generated after them
ENDLESS = LengthLimits(offset=2**40, most=2**40)  # each request has a limit of its own


@dataclass(frozen=True, kw_only=True)
class ContinuationSettings(Controls):
    """How to continue a text. The defaults sample from the model's distribution as it is.

    `max_context`: how many tokens the model reads at most; None: as many as it was trained on, 0: all. With a
    `beam_size` there is a search instead of sampling; 1 is greedy, as is a temperature of 0. `begin`: <s> is
    put before a prompt; models that were trained on several documents need it. `may_end`: </s> may end a
    text; None: the same as `begin`, because a model that was trained with one of them knows the other.
    """

    samples_by_default: ClassVar[bool | None] = True

    max_new_tokens: int = 256
    temperature: float = 1.0
    top_k: int = 0  # 0 keeps all
    top_p: float = 1.0
    beam_size: int = 0
    no_repeat_ngram_size: int = 0  # 0 allows repetition
    seed: int = 0
    begin: bool = True
    may_end: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.is_set("no_repeat_source_ngram_size"):
            raise ConfigError(
                f"no_repeat_source_ngram_size = {self.no_repeat_source_ngram_size} is for a model with"
                " a source, but this one continues texts",
                "no_repeat_ngram_size counts the prompt too",
            )

    def strategy(
        self,
        *,
        num: int = 1,
        pad_id: int = 0,
        unk_id: int | None = 1,
        bos_id: int = 2,
        eos_id: int = 3,
        tokenizer: Words | None = None,
        drafter: Drafter | None = None,
    ) -> Search:
        """The search that these settings describe, for `num` continuations of each prompt.

        Special tokens are forbidden, except those that end a text (in GPT-2 all of them do).

        Raises:
            ConfigError: the search finds fewer texts than `num`.
        """
        self._refuse_many(num)
        may_end = self.begin if self.may_end is None else self.may_end
        ends = (eos_id, *self.end_ids) if may_end else self.end_ids
        special = (pad_id, unk_id, bos_id, eos_id)
        return assembled(
            self,
            special=SpecialTokenIds(pad_id=pad_id, bos_id=bos_id, eos_id=eos_id, ends=self.end_ids),
            never=tuple(token for token in special if token is not None and token not in ends),
            n_best=num,
            limits=ENDLESS,
            least=self.min_new_tokens or 0,
            length_penalty=score_by(self.length_penalty, self.alpha),
            tokenizer=tokenizer,
            drafter=drafter,
            cut=True,
        )

    def _refuse_many(self, num: int) -> None:
        if self.search is not None or self.samples or num <= self.width:
            return
        if self.width > 1:
            raise ConfigError(
                f"num ({num}) is more than beam_size ({self.width}), and a beam finds no more texts",
                f"--num {self.width}, or --beam-size {num}",
            )
        raise ConfigError(
            f"greedy search finds one text, not num = {num}", "leave out --num, or sample, or use a beam"
        )


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The tokens of a prompt; `context` has the <s> before them too, if the model knows it."""

    ids: tuple[int, ...]
    begin: tuple[int, ...]
    number: int  # among all prompts, from 0

    @property
    def context(self) -> tuple[int, ...]:
        return (*self.begin, *self.ids)

    @property
    def read(self) -> int:
        """How much of the context is prefilled: a multiple of LENGTH_MULTIPLE, and not the last token."""
        return (len(self.context) - 1) // LENGTH_MULTIPLE * LENGTH_MULTIPLE

    def request(self, new: int) -> Request:
        """A request for at most `new` tokens. Its noise depends on the prompt alone, not on the batch."""
        return Request(
            src_len=0,
            prefix=self.ids,
            begun=self.read + 1 - len(self.begin),
            uncounted=len(self.ids),
            index=noise_of(self.ids),
            most=len(self.ids) + new,
        )


def prompts_of(
    sequences: Sequence[Sequence[int]], *, begin_id: int | None, first_number: int = 0
) -> list[Prompt]:
    """Prompts with these ids; `begin_id` is the <s> before each, if the model knows it.

    Raises:
        DataError: a prompt is empty, and the model knows no <s>.
    """
    return [
        prompt_of(ids, begin_id=begin_id, number=number)
        for number, ids in enumerate(sequences, start=first_number)
    ]


def prompt_of(ids: Sequence[int], *, begin_id: int | None, number: int = 0) -> Prompt:
    """The prompt with these ids and this number, as in `prompts_of`."""
    begin = () if begin_id is None else (begin_id,)
    if not ids and not begin:
        raise DataError(
            f"prompt {number + 1} is empty, but the model was trained on one running text and knows no"
            " beginning of a text",
            "give it a prompt, a line feed for instance",
        )
    return Prompt(ids=tuple(ids), begin=begin, number=number)


def continue_all(
    strategy: Search,
    model: DecoderOnly,
    prompts: Sequence[Prompt],
    *,
    max_new_tokens: int,
    max_context: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> list[list[Hypothesis]]:
    """The continuations of each prompt, without it; their probabilities are conditional on it.

    The model reads at most `max_context` tokens (see `prompt_stepper`). A batch has at most `batch_tokens`
    tokens, prompts and new tokens together, or a single prompt.
    """
    found: list[list[Hypothesis]] = [[] for _ in prompts]
    most = 0 if strategy.alone else batch_tokens // strategy.n_best
    with torch.no_grad(), deterministic([model]):
        step = fast_step(model)
        join = can_join(strategy) and step is not None
        for groups in _batches(prompts, max_new_tokens, most, join=join, pads=step is None or step.pads):
            read = [
                (
                    _started(model, max_context, [prompts[place] for place in places]),
                    [prompts[place].request(max_new_tokens) for place in places],
                )
                for places in groups
            ]
            answers = run_together(strategy, read) if join and len(read) > 1 else strategy(*read[0])
            for place, hypotheses in zip(itertools.chain.from_iterable(groups), answers, strict=True):
                found[place] = [without_prompt(each, len(prompts[place].ids)) for each in hypotheses]
    return found


def _started(model: DecoderOnly, max_context: int | None, prompts: Sequence[Prompt]) -> PromptStepper:
    stepper = prompt_stepper(model, max_context)
    start(stepper, prompts)
    return stepper


def stream(
    strategy: DecodingLoop,
    model: DecoderOnly,
    prompt: Prompt,
    *,
    max_new_tokens: int,
    max_context: int | None = None,
) -> Iterator[int]:
    """The tokens of one continuation, each as soon as it is generated."""
    stepper, prompt_length = prompt_stepper(model, max_context), len(prompt.ids)
    with torch.no_grad(), deterministic([model]):
        start(stepper, [prompt])
    steps = strategy.steps(stepper, [prompt.request(max_new_tokens)], [{}])
    while True:
        with torch.no_grad(), deterministic([model]):  # for this step only: the caller runs in between
            rows = next(steps, None)
        if rows is None:
            return
        if rows.length > prompt_length and len(live := rows.live()):
            yield int(rows.ids[live[0], -1])


def start(stepper: PromptStepper, prompts: Sequence[Prompt]) -> None:
    """Prefill the prompts, equally many tokens of each."""
    read = prompts[0].read
    ids = torch.tensor([prompt.context[:read] for prompt in prompts], dtype=torch.int64)
    stepper.start(ids.reshape(len(prompts), read), torch.full((len(prompts),), read))


def _batches(
    prompts: Sequence[Prompt], new: int, batch_tokens: int, *, join: bool, pads: bool
) -> Iterator[list[list[int]]]:
    """Places of prompts that are decoded together, in groups of which equally many tokens are prefilled.

    Without `join` a batch is one group. If the step `pads`, each row counts as the longest.
    """
    order = sorted(range(len(prompts)), key=lambda place: prompts[place].read)
    batch: list[int] = []
    longest = total = 0
    for place in order:
        length = len(prompts[place].context) + new
        longest, total = max(longest, length), total + length
        tokens = (len(batch) + 1) * longest if pads else total
        if batch and (tokens > batch_tokens or not (join or prompts[place].read == prompts[batch[0]].read)):
            yield _by_read(prompts, batch)
            batch, longest, total = [], length, length
        batch.append(place)
    if batch:
        yield _by_read(prompts, batch)


def _by_read(prompts: Sequence[Prompt], batch: Sequence[int]) -> list[list[int]]:
    groups = itertools.groupby(batch, key=lambda place: prompts[place].read)
    return [list(group) for _, group in groups]


def without_prompt(hypothesis: Hypothesis, length: int) -> Hypothesis:
    """The hypothesis without its first tokens, a prompt of this length."""
    ids, log_probs = hypothesis.ids[length:], hypothesis.token_log_probs[length:]
    alternatives = hypothesis.alternatives[length:]
    return replace(hypothesis, ids=ids, token_log_probs=log_probs, alternatives=alternatives)
