"""Many sentences -> batches of like length -> hypotheses, in the order in which they came.

The batch does not matter: rows are padded (see `rows.py`) and so are lengths, so that a sentence
meets the same arithmetic alone and in any company.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import torch
from jaxtyping import Int64
from torch import Tensor

from regard.decoding.hypothesis import Hypothesis, Request
from regard.decoding.rows import round_up
from regard.decoding.step import Stepper, stepper_of
from regard.models.encoder_decoder import EncoderDecoder

LENGTH = 16  # source lengths are padded to a multiple of this

Strategy = Callable[[Stepper, Sequence[Request]], list[list[Hypothesis]]]


def decode_all(
    strategy: Strategy,
    models: EncoderDecoder | Sequence[EncoderDecoder],
    sources: Sequence[list[int]],
    *,
    prefixes: Sequence[Sequence[int]] | None = None,
    batch_tokens: int = 4096,
    pad_id: int = 0,
    eos_id: int = 3,
    first_index: int = 0,
) -> list[list[Hypothesis]]:
    """The hypotheses of each source, ids without eos; several models are an ensemble.

    A batch has at most `batch_tokens` source tokens, padding counted; a longer source is a batch.
    """
    models = [models] if isinstance(models, EncoderDecoder) else models
    stepper = stepper_of(models)
    prefixes = prefixes or [()] * len(sources)
    found: list[list[Hypothesis]] = [[] for _ in sources]
    with torch.no_grad(), deterministic(models):
        for places in by_length([len(source) + 1 for source in sources], batch_tokens):
            stepper.start(*padded([[*sources[place], eos_id] for place in places], pad_id))
            requests = [
                Request(src_len=len(sources[place]), prefix=tuple(prefixes[place]), index=first_index + place)
                for place in places
            ]
            for place, hypotheses in zip(places, strategy(stepper, requests), strict=True):
                found[place] = hypotheses
    return found


def decode_stream(
    strategy: Strategy,
    models: EncoderDecoder | Sequence[EncoderDecoder],
    sources: Iterable[list[int]],
    *,
    batch_tokens: int = 4096,
    window: int = 2048,
    pad_id: int = 0,
    eos_id: int = 3,
) -> Iterator[list[Hypothesis]]:
    """`decode_all` for sources without end: `window` of them are read, sorted, decoded and yielded."""
    sources, first = iter(sources), 0
    while block := list(islice(sources, window)):
        yield from decode_all(
            strategy, models, block,
            batch_tokens=batch_tokens, pad_id=pad_id, eos_id=eos_id, first_index=first,
        )  # fmt: skip
        first += len(block)


def by_length(lengths: Sequence[int], batch_tokens: int) -> Iterator[list[int]]:
    """Places of like lengths together, the longest first; count times greatest length is in budget."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
        if batch and (len(batch) + 1) * lengths[batch[0]] > batch_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def padded(
    sequences: Sequence[Sequence[int]], pad_id: int, multiple: int = LENGTH
) -> tuple[Int64[Tensor, "rows len"], Int64[Tensor, " rows"]]:
    """A row for each, padded on the right to a multiple; and their lengths."""
    lengths = torch.tensor([len(sequence) for sequence in sequences])
    ids = torch.full((len(sequences), round_up(int(lengths.max()), multiple)), pad_id)
    for row, sequence in zip(ids, sequences, strict=True):
        row[: len(sequence)] = torch.tensor(sequence, dtype=torch.int64)
    return ids, lengths


@contextmanager
def deterministic(models: Sequence[EncoderDecoder]) -> Iterator[None]:
    """The models without dropout; afterwards as they were."""
    modes = [model.training for model in models]
    try:
        for model in models:
            model.eval()
        yield
    finally:
        for model, mode in zip(models, modes, strict=True):
            model.train(mode)
