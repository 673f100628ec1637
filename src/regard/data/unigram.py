"""Deterministic training of a unigram language model vocabulary (Kudo 2018).

The tokenizers library can segment with such a vocabulary, but its trainer adds floats in the order of a hash
table, so two trainings on one corpus differ. Here the counts of the best segmentation replace the expected
counts, so that all sums are of integers.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

LONGEST_PIECE = 16
SEED_WORDS = 200_000  # the most frequent words, whose substrings are the first vocabulary
SEED_PIECES = 10  # the size of the first vocabulary, as a multiple of the final size
KEPT_SHARE = 0.75  # the share of the vocabulary that each pruning keeps
ROUNDS = 2  # of segmenting and counting between two prunings

Vocabulary = list[tuple[str, float]]
Segment = Callable[[Vocabulary, Sequence[str]], list[list[int]]]


def train_unigram(words: Mapping[str, int], size: int, segment: Segment) -> Vocabulary:
    """Trains at most `size` pieces; returns them with log-probabilities, the most probable first.

    Single characters are always kept. `words` are the words of the corpus with their counts; `segment`
    returns the best segmentation of words as indices of pieces.
    """
    ranked = sorted(words, key=lambda word: (-words[word], word))
    symbols = {symbol for word in ranked for symbol in word}
    pieces = _first_vocabulary({word: words[word] for word in ranked[:SEED_WORDS]}, SEED_PIECES * size)
    pieces.update({symbol: max(pieces[symbol], 1) for symbol in symbols})
    size = max(size, len(symbols))
    counts = np.fromiter((words[word] for word in ranked), np.int64)
    while True:
        for _ in range(ROUNDS):
            pieces = _recounted(pieces, symbols, ranked, counts, segment)
        if len(pieces) <= size:
            return _log_probabilities(pieces)
        room = max(size, int(KEPT_SHARE * len(pieces))) - len(symbols)
        longer = [piece for piece in _by_count(pieces) if piece not in symbols]
        pieces = Counter({piece: pieces[piece] for piece in (*longer[:room], *symbols)})


def extend_unigram(
    words: Mapping[str, int],
    size: int,
    segment: Segment,
    *,
    known: Vocabulary,
    symbols: set[str],
    may_add: Callable[[str], bool],
) -> Vocabulary:
    """At most `size` pieces that are added to the vocabulary `known`, which stays; the most probable first.

    `symbols`, single characters that it lacks, are always among them. Other pieces are substrings of `words`
    for which `may_add` is True. The log-probabilities are those of all pieces on `words`, so that new pieces
    and known ones can be compared. `segment` gets `known` and the new pieces, in this order.
    """
    ranked = sorted(words, key=lambda word: (-words[word], word))
    old = {piece for piece, _ in known}
    first = _first_vocabulary({word: words[word] for word in ranked[:SEED_WORDS]}, None)
    candidates = [piece for piece in first if piece not in old and piece not in symbols and may_add(piece)]
    counts = np.fromiter((words[word] for word in ranked), np.int64)
    pieces = [*sorted(symbols), *candidates[: SEED_PIECES * size]]
    scores = dict.fromkeys(pieces, 0.0)
    used: dict[str, int] = {piece: max(first[piece], 1) for piece in pieces}
    total = sum(words[word] * len(word) for word in ranked)
    while True:
        for _ in range(ROUNDS):
            scores = {piece: float(np.log(count / total)) for piece, count in used.items()}
            used, total = _used_of(known, scores, ranked, counts, segment, symbols)
        if len(used) <= size:
            return sorted(
                ((piece, float(np.log(count / total))) for piece, count in used.items()),
                key=lambda each: (-each[1], each[0]),
            )
        room = max(size, int(KEPT_SHARE * len(used))) - len(symbols)
        longer = [piece for piece in _by_count(used) if piece not in symbols]
        used = {piece: used[piece] for piece in (*sorted(symbols), *longer[: max(room, 0)])}


def _used_of(
    known: Vocabulary,
    scores: Mapping[str, float],
    ranked: Sequence[str],
    counts: np.ndarray,
    segment: Segment,
    symbols: set[str],
) -> tuple[dict[str, int], int]:
    """The count of each new piece in the best segmentation, and of all pieces; unused ones are dropped."""
    found = _uses([*known, *scores.items()], ranked, counts, segment)
    used = dict(zip(scores, found[len(known) :].tolist(), strict=True))
    kept = {piece: max(count, 1) for piece, count in used.items() if count or piece in symbols}
    return kept, int(found.sum())


def _first_vocabulary(words: Mapping[str, int], size: int | None) -> Counter[str]:
    """The first vocabulary: the repeated substrings that cover most text; None: all of them."""
    found = Counter[str]()
    for word, count in words.items():
        for start in range(len(word)):
            for stop in range(start + 1, min(len(word), start + LONGEST_PIECE) + 1):
                found[word[start:stop]] += count
    repeated = [piece for piece, count in found.items() if count > 1]
    repeated.sort(key=lambda piece: (-found[piece] * len(piece), piece))
    return Counter({piece: found[piece] for piece in repeated[:size]})


def _recounted(
    pieces: Counter[str], symbols: set[str], words: Sequence[str], counts: np.ndarray, segment: Segment
) -> Counter[str]:
    """The count of each piece in the best segmentation of the corpus; unused pieces are dropped."""
    vocabulary = _log_probabilities(pieces)
    used = _uses(vocabulary, words, counts, segment).tolist()
    found = {piece: count for (piece, _), count in zip(vocabulary, used, strict=True)}
    return Counter({piece: max(count, 1) for piece, count in found.items() if count or piece in symbols})


def _uses(vocabulary: Vocabulary, words: Sequence[str], counts: np.ndarray, segment: Segment) -> np.ndarray:
    """How often the best segmentation of words with these counts has each piece."""
    segmented = segment(vocabulary, words)
    numbers = np.fromiter((number for ids in segmented for number in ids), np.int64)
    found = np.zeros(len(vocabulary), np.int64)
    np.add.at(found, numbers, np.repeat(counts, [len(ids) for ids in segmented]))
    return found


def _by_count(pieces: Mapping[str, int]) -> list[str]:
    return sorted(pieces, key=lambda piece: (-pieces[piece], piece))


def _log_probabilities(pieces: Mapping[str, int]) -> Vocabulary:
    ranked = _by_count(pieces)
    counts = np.array([pieces[piece] for piece in ranked], np.float64)
    return list(zip(ranked, np.log(counts / counts.sum()).tolist(), strict=True))
