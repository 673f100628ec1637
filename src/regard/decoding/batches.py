"""Batched decoding: sources are sorted into batches by length, and answered in their order.

A result does not depend on its batch, to the bit: rows are padded (see `rows.py`) and so are source
lengths, so that a sentence meets the same arithmetic alone and in any batch.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from regard.decoding.base_search import Search
from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.pool import DecodingPool
from regard.decoding.rows import round_up
from regard.decoding.step import Stepper, stepper_of
from regard.errors import ConfigError, DataError
from regard.fast.decoding_step import fast_step
from regard.models.sequence_to_sequence import SequenceToSequence

# With source lengths a multiple of LENGTH, the encoder states of a sentence are equal to the bit alone
# and in a batch with one of 600 tokens (1 and 2 threads; widths 24 to 512, 1 to 8 heads, all positions).
# PyTorch computes the products of a single query with all keys in another loop if they have fewer than
# SMALL multiplications, as with heads narrower than 25. So sources are padded to more.
LENGTH = 16
SMALL = 400
SHARES = 4  # batches for each worker of a pool, so that all finish at about the same time

Strategy = Callable[[Stepper, Sequence[Request]], list[list[Hypothesis]]]


@dataclass(frozen=True)
class Job:
    """A batch of similar lengths: padded sources, their lengths, and a request for each."""

    src_ids: Int64[Tensor, "rows src_len"]
    src_lengths: Int64[Tensor, " rows"]
    requests: list[Request]


class Decoder:
    """A search with one model, or with an ensemble: batches in, hypotheses out."""

    def __init__(self, strategy: Strategy, models: Sequence[SequenceToSequence]) -> None:
        self.strategy, self.models = strategy, models

    def __call__(self, job: Job) -> list[list[Hypothesis]]:
        stepper = stepper_of(self.models)
        with torch.no_grad(), deterministic(self.models):
            stepper.start(job.src_ids, job.src_lengths)
            return self.strategy(stepper, job.requests)


def decode_all(
    strategy: Strategy,
    models: SequenceToSequence | Sequence[SequenceToSequence],
    sources: Sequence[list[int]],
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    batch_tokens: int = 4096,
    pad_id: int = 0,
    eos_id: int = 3,
    first_index: int = 0,
    pool: DecodingPool[Job, list[list[Hypothesis]]] | None = None,
    decoded: Callable[[Sequence[int]], None] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, ids without eos; several models are an ensemble.

    A batch has at most `batch_tokens` source tokens, padding included, or a single source. A `pool`, of a
    `Decoder` with the same strategy and models, shares the batches, which are then smaller. `decoded` is
    called with the places of each finished batch.
    """
    models = [models] if isinstance(models, SequenceToSequence) else models
    if not models:
        raise ConfigError("an ensemble needs at least one model")
    prefixes = prefixes or [()] * len(sources)
    most = max_positions(models)
    requests = [
        Request(src_len=len(source), prefix=tuple(prefix), index=index, most=most - 1, source=tuple(source))
        for index, (source, prefix) in enumerate(zip(sources, prefixes, strict=True), start=first_index)
    ]
    refuse_long(requests, most)
    shortest = shortest_source(models)
    widths = [len(source) + 1 for source in sources]
    if len(sources) > 1 and not all(map(reads_without_padding, models)):
        widths = [min(round_up(max(width, shortest), LENGTH), most) for width in widths]
    if isinstance(strategy, Search) and strategy.alone:
        batch_tokens = 1
    elif pool:
        batch_tokens = min(batch_tokens, math.ceil(sum(widths) / (SHARES * pool.size)))
    batches = list(by_length(widths, batch_tokens))
    jobs = [
        Job(
            *padded([[*sources[place], eos_id] for place in places], pad_id, least=shortest, most=most),
            [requests[place] for place in places],
        )
        for places in batches
    ]
    found: list[list[Hypothesis]] = [[] for _ in sources]
    answered = (lambda job: decoded(batches[job])) if decoded else None
    answers = pool.map(jobs, answered) if pool else _one_by_one(Decoder(strategy, models), jobs, answered)
    for places, batch in zip(batches, answers, strict=True):
        for place, hypotheses in zip(places, batch, strict=True):
            found[place] = hypotheses
    return found


def _one_by_one(
    decoder: Decoder, jobs: Sequence[Job], answered: Callable[[int], None] | None
) -> Iterator[list[list[Hypothesis]]]:
    for number, job in enumerate(jobs):
        yield decoder(job)
        if answered:
            answered(number)


def reads_without_padding(model: SequenceToSequence) -> bool:
    """True if its encoder computes sources without padding."""
    step = fast_step(model)
    return step is not None and step.start is not None


def refuse_long(requests: Sequence[Request], most: int) -> None:
    """Raise a DataError for a request with more tokens than the model has positions."""
    for request in requests:
        if max(request.src_len, len(request.prefix)) >= most:
            raise DataError(
                f"sentence {request.index + 1} has {request.src_len} tokens and a prefix of "
                f"{len(request.prefix)}, but the model has only {most} positions, one for the end",
                "cut it into shorter sentences",
            )


def decode_stream(
    strategy: Strategy,
    models: SequenceToSequence | Sequence[SequenceToSequence],
    sources: Iterable[list[int]],
    *,
    batch_tokens: int = 4096,
    window: int = 2048,
    pad_id: int = 0,
    eos_id: int = 3,
) -> Iterator[list[Hypothesis]]:
    """`decode_all` for an endless stream: `window` sources are read, sorted, decoded and yielded."""
    sources, first = iter(sources), 0
    while block := list(islice(sources, window)):
        yield from decode_all(
            strategy, models, block,
            batch_tokens=batch_tokens, pad_id=pad_id, eos_id=eos_id, first_index=first,
        )  # fmt: skip
        first += len(block)


def by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Batches of places of similar lengths, longest first, of at most `batch_tokens` padded tokens."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def padded(
    sequences: Sequence[Sequence[int]], pad_id: int, *, least: int = 1, most: int = sys.maxsize
) -> tuple[Int64[Tensor, "rows len"], Int64[Tensor, " rows"]]:
    """The sequences, padded on the right to a multiple of LENGTH from `least` to `most`; their lengths."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    width = min(most, round_up(max(least, int(lengths.max())), LENGTH))
    ids = torch.full((len(sequences), width), pad_id)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence, dtype=torch.int64)
    return ids, lengths


def shortest_source(models: Sequence[SequenceToSequence]) -> int:
    """The least length to which sources are padded: see SMALL."""
    return math.ceil(SMALL / min(model.d_head for model in models))


def max_positions(models: Sequence[SequenceToSequence]) -> int:
    """How many positions all of the models have; unlimited where none are learned."""
    return min(model.max_length or sys.maxsize for model in models)


@contextmanager
def deterministic(models: Sequence[nn.Module]) -> Iterator[None]:
    """Evaluation mode, without dropout; restored afterwards."""
    training = [model for model in models if model.training]
    try:
        for model in training:
            model.eval()
        yield
    finally:
        for model in training:
            model.train()
