"""Unigram vocabularies: probabilities, full coverage, the given size, deterministic training."""

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from regard.data.unigram import Vocabulary, train_unigram


def best_segmentations(vocabulary: Vocabulary, words: list[str]) -> list[list[int]]:
    """Viterbi's algorithm, plainly."""
    scores = {piece: (score, number) for number, (piece, score) in enumerate(vocabulary)}
    found = []
    for word in words:
        best: list[tuple[float, list[int]]] = [(0.0, [])]
        for stop in range(1, len(word) + 1):
            best.append(
                max(
                    (
                        best[start][0] + scores[word[start:stop]][0],
                        [*best[start][1], scores[word[start:stop]][1]],
                    )
                    for start in range(stop)
                    if word[start:stop] in scores
                )
            )
        found.append(best[-1][1])
    return found


@given(
    words=st.dictionaries(st.text("abc ", min_size=1, max_size=8), st.integers(1, 99), min_size=1),
    size=st.integers(1, 40),
)
def test_a_vocabulary_covers_every_word_and_is_a_distribution(words, size):
    vocabulary = train_unigram(words, size, best_segmentations)
    pieces = [piece for piece, _ in vocabulary]
    symbols = set("".join(words))
    assert symbols <= set(pieces)
    assert len(set(pieces)) == len(pieces) <= max(size, len(symbols))
    assert math.isclose(sum(math.exp(score) for _, score in vocabulary), 1.0)


@given(words=st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 99), min_size=1))
def test_the_order_of_the_words_does_not_matter(words):
    backwards = dict(reversed(words.items()))
    assert train_unigram(words, 9, best_segmentations) == train_unigram(backwards, 9, best_segmentations)


def test_what_comes_often_becomes_a_piece():
    words = Counter({" the": 500, " other": 80, " then": 60, " cat": 50, " cats": 40})
    pieces = [piece for piece, _ in train_unigram(words, 16, best_segmentations)]
    assert pieces[0] == " the"
    assert " cat" in pieces
