"""Batched decoding: sources are sorted into batches by length; results come in input order.

A result does not depend on its batch, to the bit. For that the number of rows (see `rows.py`) and the length
of the sources are padded to sizes for which PyTorch computes a row in the same way.
"""

import math
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from numbers import Integral
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor, nn

from regard.decoding.base_search import Search
from regard.decoding.hypothesis import Constraint, Hypothesis, Request
from regard.decoding.pool import DecodingPool
from regard.decoding.rows import round_up
from regard.decoding.step import Stepper, stepper_of
from regard.errors import ConfigError, DataError
from regard.fast.decoding_step import fast_step
from regard.models.sequence_to_sequence import SequenceToSequence

# With source lengths a multiple of this, the encoder states of a sentence are equal to the bit alone and in a
# batch with one of 600 tokens (1 and 2 threads; widths 24 to 512, 1 to 8 heads, all positions).
LENGTH_MULTIPLE = 16
# PyTorch computes the products of a single query with all keys, d_head x length multiplications, in another
# loop if they are fewer than this; with 16 keys that concerns heads narrower than 25.
MIN_MULTIPLICATIONS = 400
BATCH_TOKENS, WINDOW = 4096, 2048  # padded source tokens of a batch; sources of a stream that are sorted
BATCHES_PER_WORKER = 4  # of a pool; with several, all workers finish at about the same time

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
    required: Sequence[tuple[Constraint, ...]] | None = None,
    batch_tokens: int = BATCH_TOKENS,
    pad_id: int = 0,
    eos_id: int = 3,
    first_index: int = 0,
    pool: DecodingPool[Job, list[list[Hypothesis]]] | None = None,
    decoded: Callable[[Sequence[int]], None] | None = None,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, ids without eos; several models are an ensemble.

    `sources` are lists of ids without the end token: `eos_id` is appended to each, as `SequencePairs` does in
    training. The end token of a hypothesis is the search's.

    A batch has at most `batch_tokens` source tokens, padding included, or a single source. A `pool`, of a
    `Decoder` with the same strategy and models, shares the batches, which are then smaller. `decoded` is
    called with the indices of the sources of each finished batch. Sources are numbered from `first_index`
    (`Request.index`). `required`: what a constrained search requires of each (`Request.required`).

    Raises:
        ConfigError: there is no model, one is not a `SequenceToSequence`, or a special token of the search is
            not in the vocabulary.
        DataError: a source is not a list of ids; or a source or a prefix is too long for a model, or has an
            id that not every model has.
    """
    models = ensemble_of(models)
    _refuse_other_sources(sources)
    _refuse_other_special_tokens(strategy, models, eos_id)
    prefixes = [()] * len(sources) if prefixes is None else prefixes
    required = [()] * len(sources) if required is None else required
    positions = max_positions(models)
    requests = [
        Request(
            src_len=len(source),
            prefix=tuple(prefix),
            index=number,
            most=positions - 1,
            source=tuple(source),
            required=own,
        )
        for number, (source, prefix, own) in enumerate(
            zip(sources, prefixes, required, strict=True), start=first_index
        )
    ]
    refuse_long(requests, positions)
    _refuse_unknown_ids(requests, models)
    lengths = _encoded_lengths(sources, models)
    if isinstance(strategy, Search) and strategy.alone:
        batch_tokens = 1
    elif pool:
        batch_tokens = min(batch_tokens, math.ceil(sum(lengths) / (BATCHES_PER_WORKER * pool.size)))
    batches, min_len = list(by_length(lengths, batch_tokens)), min_source_length(models)
    jobs = [
        Job(
            *padded([[*sources[index], eos_id] for index in batch], pad_id, least=min_len, most=positions),
            [requests[index] for index in batch],
        )
        for batch in batches
    ]
    finished = (lambda number: decoded(batches[number])) if decoded else None
    results = pool.map(jobs, finished) if pool else _one_by_one(Decoder(strategy, models), jobs, finished)
    by_source: list[list[Hypothesis]] = [[] for _ in sources]
    for batch, hypotheses_of_batch in zip(batches, results, strict=True):
        for index, hypotheses in zip(batch, hypotheses_of_batch, strict=True):
            by_source[index] = hypotheses
    return by_source


def ensemble_of(models: Any) -> Sequence[SequenceToSequence]:
    """The models of an ensemble, or the only one.

    Raises:
        ConfigError: there is none, or one is not a `SequenceToSequence` with a config.
    """
    found = models if isinstance(models, Sequence | nn.ModuleList) else [models]
    if not found:
        raise ConfigError("an ensemble needs at least one model")
    for model in found:
        if not isinstance(model, SequenceToSequence):
            raise ConfigError(
                f"{type(model).__name__} is no SequenceToSequence of regard.models, which has a cache",
                "decode(module, src_ids, src_lengths, search) needs logits alone, continue_all a DecoderOnly",
            )
        if not hasattr(model, "d_head"):  # whose default is the d_model of the config
            raise ConfigError(
                f"{type(model).__name__} has no d_head, from which sources get their least length:"
                " its config has no d_model",
                "set self.config, with d_model, src_vocab_size, tgt_vocab_size and pad_id; or define d_head",
            )
    return cast(Sequence[SequenceToSequence], found)


def _encoded_lengths(sources: Sequence[list[int]], models: Sequence[SequenceToSequence]) -> list[int]:
    """The length of each source with its end token, and with padding where the encoder computes it."""
    lengths = [len(source) + 1 for source in sources]
    if len(sources) == 1 or all(map(reads_without_padding, models)):
        return lengths
    min_len, positions = min_source_length(models), max_positions(models)
    return [padded_length(length, min_len, positions) for length in lengths]


def _one_by_one(
    decoder: Decoder, jobs: Sequence[Job], finished: Callable[[int], None] | None
) -> list[list[list[Hypothesis]]]:
    """As `DecodingPool.map`, in this process."""
    results = []
    for number, job in enumerate(jobs):
        results.append(decoder(job))
        if finished:
            finished(number)
    return results


def reads_without_padding(model: SequenceToSequence) -> bool:
    """True if the encoder of this model computes sources without padding, as that of a fast step does."""
    step = fast_step(model)
    return step is not None and step.start is not None


def refuse_long(requests: Sequence[Request], positions: int) -> None:
    """Raise a DataError for a request whose source or prefix leaves no position for its end token."""
    for request in requests:
        if max(request.src_len, len(request.prefix)) >= positions:
            raise DataError(
                f"sentence {request.index + 1} has {request.src_len} tokens and a prefix of "
                f"{len(request.prefix)}, but the model has only {positions} positions, one for the end",
                "cut it into shorter sentences",
            )


def _refuse_other_sources(sources: Any) -> None:
    """Raise a DataError if these are not lists of ids."""
    for number, source in enumerate(sources, start=1):
        is_list = isinstance(source, Sequence | np.ndarray | Tensor) and not isinstance(source, str | bytes)
        if not is_list or getattr(source, "ndim", 1) != 1:
            raise DataError(
                f"source {number} is {source!r}, not a list of ids",
                "give a list of sources, [[4, 5, 6]]; texts are encoded by a tokeniser first",
            )
        each_id = source.tolist() if isinstance(source, Tensor) else source
        wrong = [each for each in each_id if not isinstance(each, Integral) or isinstance(each, bool)]
        if wrong:
            raise DataError(f"source {number} has {wrong[0]!r}, which is not an id", "ids are whole numbers")


def _refuse_other_special_tokens(strategy: Any, models: Sequence[SequenceToSequence], eos_id: int) -> None:
    """Raise a ConfigError for a special token that is not in the vocabulary of a model."""
    for model in models:
        config = getattr(model, "config", None)
        for name, value, vocabulary in (
            ("bos_id of the search", getattr(strategy, "bos_id", None), "tgt_vocab_size"),
            ("eos_id of the search", getattr(strategy, "eos_id", None), "tgt_vocab_size"),
            ("eos_id", eos_id, "src_vocab_size"),
        ):
            size = getattr(config, vocabulary, None)
            if value is not None and size is not None and value >= size:
                raise ConfigError(
                    f"{name} = {value} is not in the vocabulary, whose {vocabulary} is {size}",
                    f"ids are from 0 to {size - 1:,}",
                )


def _refuse_unknown_ids(requests: Sequence[Request], models: Sequence[SequenceToSequence]) -> None:
    """Raise a DataError for an id of a source or prefix that is not in the vocabulary of all models."""
    configs = [getattr(model, "config", None) for model in models]
    src_size, tgt_size = (
        min(getattr(config, name, sys.maxsize) for config in configs)
        for name in ("src_vocab_size", "tgt_vocab_size")
    )
    for request in requests:
        for ids, size in ((request.source or (), src_size), (request.prefix, tgt_size)):
            if ids and not 0 <= min(ids) <= max(ids) < size:
                wrong = next(each for each in ids if not 0 <= each < size)
                raise DataError(
                    f"sentence {request.index + 1} has the id {wrong}, which is not in the vocabulary",
                    f"ids are from 0 to {size - 1:,}",
                )


def decode_stream(
    strategy: Strategy,
    models: SequenceToSequence | Sequence[SequenceToSequence],
    sources: Iterable[list[int]],
    *,
    batch_tokens: int = BATCH_TOKENS,
    window: int = WINDOW,
    pad_id: int = 0,
    eos_id: int = 3,
) -> Iterator[list[Hypothesis]]:
    """`decode_all` for an endless stream: `window` sources are read, sorted, decoded and yielded.

    Raises:
        ConfigError: `window` is below 1.
    """
    if window < 1:
        raise ConfigError(f"window is {window}, but must be at least 1", f"{WINDOW} sources are the default")
    sources, first_index = iter(sources), 0
    while block := list(islice(sources, window)):
        yield from decode_all(
            strategy, models, block,
            batch_tokens=batch_tokens, pad_id=pad_id, eos_id=eos_id, first_index=first_index,
        )  # fmt: skip
        first_index += len(block)


def by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Batches of indices into `lengths`, longest first.

    A batch has at most `batch_tokens` tokens when it is padded to its longest sequence, or a single sequence.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def padded(
    sequences: Sequence[Sequence[int]], pad_id: int, *, least: int = 1, most: int = sys.maxsize
) -> tuple[Int64[Tensor, "rows len"], Int64[Tensor, " rows"]]:
    """The sequences, padded on the right to the `padded_length` of the longest; and their own lengths."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    width = padded_length(int(lengths.max()), least, most)
    ids = torch.full((len(sequences), width), pad_id)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence, dtype=torch.int64)
    return ids, lengths


def padded_length(length: int, least: int, most: int) -> int:
    """The greater of `length` and `least`, rounded up to a multiple of LENGTH_MULTIPLE; at most `most`."""
    return min(most, round_up(max(length, least), LENGTH_MULTIPLE))


def min_source_length(models: Sequence[SequenceToSequence]) -> int:
    """The length to which shorter sources are padded: see MIN_MULTIPLICATIONS."""
    return math.ceil(MIN_MULTIPLICATIONS / min(model.d_head for model in models))


def max_positions(models: Sequence[SequenceToSequence]) -> int:
    """The number of positions that all of the models have; sys.maxsize if none of them has a limit."""
    return min(model.max_length or sys.maxsize for model in models)


@contextmanager
def deterministic(models: Sequence[nn.Module]) -> Iterator[None]:
    """A context in which the models are in evaluation mode, without dropout; restored afterwards."""
    in_training = [model for model in models if model.training]
    try:
        for model in in_training:
            model.eval()
        yield
    finally:
        for model in in_training:
            model.train()
