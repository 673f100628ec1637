"""Continues the training of byte-pair encoding: more merges, after those of a trained tokeniser."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Mapping
from itertools import pairwise

Merge = tuple[str, str]
FEWEST = 2  # a pair that occurs less often is not merged


def continued_merges(
    words: Mapping[tuple[str, ...], int],
    size: int,
    *,
    known: Container[str],
    may_merge: Callable[[str, str], bool],
) -> list[Merge]:
    """The merges that come after those of a tokeniser, best first (Sennrich et al. 2016, algorithm 1).

    `words` are words in the pieces of that tokeniser, with their counts. The most frequent pair of
    neighbours is merged next; of several the first in the order of their letters. It ends when `size` pieces
    that are not `known` were made. Pairs for which `may_merge` is False are never merged.
    """
    corpus = _Corpus(words, may_merge)
    merges: list[Merge] = []
    made: set[str] = set()
    while len(made) < size and (pair := corpus.most_frequent()) is not None:
        corpus.merge(pair)
        merges.append(pair)
        if (piece := "".join(pair)) not in known:
            made.add(piece)
    return merges


class _Corpus:
    """Words in pieces, and the counts of the pairs that may be merged."""

    def __init__(self, words: Mapping[tuple[str, ...], int], may_merge: Callable[[str, str], bool]) -> None:
        self._words, self._counts = [list(word) for word in words], list(words.values())
        self._may_merge: dict[Merge, bool] = {}
        self._decide = may_merge
        self._pairs = Counter[Merge]()
        self._places = defaultdict[Merge, set[int]](set)  # pair -> words that may have it
        for number in range(len(self._words)):
            self._count(number, 1)
        self._heap = [(-count, pair) for pair, count in self._pairs.items()]
        heapq.heapify(self._heap)

    def most_frequent(self) -> Merge | None:
        """The most frequent pair; None if no pair is frequent enough."""
        while self._heap:
            count, pair = heapq.heappop(self._heap)
            if -count == self._pairs[pair]:  # else it was changed and has a newer entry
                return pair if -count >= FEWEST else None
        return None

    def merge(self, pair: Merge) -> None:
        """Merges a pair in all words."""
        changed: set[Merge] = set()
        for number in sorted(self._places.pop(pair)):
            changed |= self._count(number, -1)
            self._words[number] = _merged(self._words[number], pair)
            changed |= self._count(number, 1)
        for each in changed:
            if self._pairs[each] > 0:
                heapq.heappush(self._heap, (-self._pairs[each], each))
            else:
                del self._pairs[each]

    def _count(self, number: int, sign: int) -> set[Merge]:
        """Adds or removes the pairs of a word; returns them."""
        pairs = [pair for pair in pairwise(self._words[number]) if self._mergeable(pair)]
        for pair in pairs:
            self._pairs[pair] += sign * self._counts[number]
            if sign > 0:
                self._places[pair].add(number)
        return set(pairs)

    def _mergeable(self, pair: Merge) -> bool:
        if pair not in self._may_merge:
            self._may_merge[pair] = self._decide(*pair)
        return self._may_merge[pair]


def _merged(word: list[str], pair: Merge) -> list[str]:
    result: list[str] = []
    place = 0
    while place < len(word):
        if tuple(word[place : place + 2]) == pair:
            result.append("".join(pair))
            place += 2
        else:
            result.append(word[place])
            place += 1
    return result
