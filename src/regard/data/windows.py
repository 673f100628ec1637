"""Windows on a token stream, for training and for scoring each token once with context."""

import bisect
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Int

from regard.data.batch import IGNORED
from regard.data.examples import Indices, Lengths
from regard.data.noise import derive_seed
from regard.data.token_stream import TextBatch, Tokens, TokenStream
from regard.errors import DataError

PAD = 0  # the id at padded positions

Span = tuple[int, int]  # the first token, and that after the last


def windows_in(targets: int, block: int) -> int:
    """The number of windows of `block` predictions in `targets`; 0 if there are fewer than `block`."""
    return max(1, (targets - block + 1) // block) if targets >= block else 0


class WindowExamples:
    """Consecutive windows of `block` predictions across documents; each epoch begins at another offset.

    The offset is random, from (seed, epoch), so that over the epochs each token is predicted with context of
    every length. Less than one window is unused at either end.
    """

    def __init__(self, stream: Tokens, block: int, *, seed: int, name: str = "the training text") -> None:
        if stream.num_targets < block:
            raise DataError(
                f"{name} has {len(stream.ids):,} tokens, less than a block of {block:,}",
                "give more text, or a smaller task.block",
            )
        self._stream, self._block, self._seed = stream, block, seed
        self._count = windows_in(stream.num_targets, block)

    def __len__(self) -> int:
        return self._count

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        lengths = np.full(len(examples), self._block)
        return lengths, lengths

    def batch(self, examples: Indices, epoch: int) -> TextBatch:
        starts = self._stream.first + self.offset(epoch) + examples * self._block
        labels, ids = self._stream.read(starts[:, None] + np.arange(self._block))
        return TextBatch(
            ids=torch.from_numpy(ids),
            labels=torch.from_numpy(labels),
            documents=None,
            lines=torch.from_numpy(examples + 1),
        )

    def offset(self, epoch: int) -> int:
        """The offset of the first window of an epoch."""
        surplus = self._stream.num_targets - self._count * self._block
        return derive_seed(self._seed, epoch) % (min(surplus, self._block - 1) + 1)


class PackedExamples:
    """Documents packed into rows of at most `block` tokens, in which they do not attend to each other.

    A longer document is split into pieces. Rows are packed once, because which documents share a row makes no
    difference to training.
    """

    def __init__(self, stream: TokenStream, block: int) -> None:
        self._stream, self._block = stream, block
        self.rows: list[list[Span]] = []
        self.sizes = list[int]()  # rows of each corpus
        documents = documents_of(stream)
        for corpus in stream.corpora:
            pieces = [
                (start, min(start + block, last))
                for first, last in documents[corpus.start : corpus.stop]
                for start in range(first, last, block)
            ]
            rows = pack(pieces, block)
            self.rows += rows
            self.sizes.append(len(rows))

    def __len__(self) -> int:
        return len(self.rows)

    def lengths(self, examples: Indices, epoch: int) -> tuple[Lengths, Lengths]:
        lengths = np.full(len(examples), self._block)
        return lengths, lengths

    def batch(self, examples: Indices, epoch: int) -> TextBatch:
        return row_batch(self._stream, [self.rows[number] for number in examples.tolist()], examples + 1)


def pack(pieces: Sequence[Span], block: int) -> list[list[Span]]:
    """Packs pieces into rows of at most `block` tokens: best fit, longest piece first."""
    rows: list[list[Span]] = []
    rows_by_free: list[list[int]] = [[] for _ in range(block + 1)]  # free length -> rows
    free_lengths: list[int] = []  # the free lengths of all rows, sorted
    for piece in sorted(pieces, key=lambda piece: (piece[0] - piece[1], piece[0])):
        length = piece[1] - piece[0]
        place = bisect.bisect_left(free_lengths, length)
        if place < len(free_lengths):
            free = free_lengths[place]
            number = rows_by_free[free].pop()
            if not rows_by_free[free]:
                free_lengths.pop(place)
        else:
            free, number = block, len(rows)
            rows.append([])
        rows[number].append(piece)
        if not rows_by_free[free - length]:
            bisect.insort(free_lengths, free - length)
        rows_by_free[free - length].append(number)
    return [sorted(row) for row in rows]


def row_batch(
    stream: TokenStream, rows: Sequence[Sequence[Span]], lines: Int[np.ndarray, " rows"]
) -> TextBatch:
    """A batch of rows of pieces, which are separate documents, padded on the right."""
    width = max(sum(last - first for first, last in row) for row in rows)
    ids = np.full((len(rows), width), PAD, np.int64)
    labels, documents = np.full_like(ids, IGNORED), np.zeros_like(ids)
    for number, row in enumerate(rows):
        place = 0
        for document, (first, last) in enumerate(row):
            here = slice(place, place + last - first)
            labels[number, here], ids[number, here] = stream.read(np.arange(first, last))
            documents[number, here] = document
            place += last - first
        documents[number, place:] = len(row)
    return TextBatch(
        ids=torch.from_numpy(ids),
        labels=torch.from_numpy(labels),
        documents=torch.from_numpy(documents),
        lines=torch.from_numpy(lines),
    )


def documents_of(stream: TokenStream) -> list[Span]:
    """The predicted tokens of each document, as pieces."""
    starts = stream.starts.tolist()
    return list(zip([stream.first, *starts[1:-1]], starts[1:], strict=True))


def scoring_batches(
    stream: TokenStream, block: int, *, context: int, separate_documents: bool, batch_tokens: int
) -> Iterator[TextBatch]:
    """Batches of windows of at most `block` tokens that together predict each token of a stream once.

    The window moves by `block` - `context` tokens, so every token after the first window has at least
    `context` tokens before it in its window; those tokens are input only. `separate_documents`: a window
    stays inside a document, as in `PackedExamples`; else windows cross documents, as in `WindowExamples`.
    """
    sequences = documents_of(stream) if separate_documents else [(stream.first, len(stream.ids))]
    windows = [window for sequence in sequences for window in scoring_windows(sequence, block, context)]
    windows.sort(key=lambda window: window[0] - window[2])  # the longest first
    place = 0
    while place < len(windows):
        first, _, last = windows[place]
        group = windows[place : place + max(1, batch_tokens // (last - first))]
        place += len(group)
        batch = row_batch(stream, [[(first, last)] for first, _, last in group], np.arange(len(group)) + 1)
        for row, (first, predicted, _) in enumerate(group):
            batch.labels[row, : predicted - first] = IGNORED
        yield TextBatch(ids=batch.ids, labels=batch.labels, documents=None, lines=batch.lines)


def scoring_windows(sequence: Span, block: int, context: int) -> Iterator[tuple[int, int, int]]:
    """The windows of at most `block` tokens in which each token of a sequence is predicted once.

    Of each its first token, its first predicted token, its end.
    """
    first, last = sequence
    done = first
    while done < last:
        end = min(last, first + block if done == first else done + block - context)
        yield max(first, end - block), done, end
        done = end
