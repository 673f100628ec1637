"""BLEU by source length: each sentence is in one group, each group is scored as a corpus."""

import pytest

from regard.errors import DataError
from regard.evaluation.by_length import GROUP_LIMITS, bleu_by_length
from regard.evaluation.translation import corpus_scores


def sentence(length, start=0):
    return " ".join(f"w{start + i}" for i in range(length))


LENGTHS = [3, 5, 6, 12, 12, 0, 41, 101, 400, 10]
SOURCES = [sentence(length) for length in LENGTHS]
REFERENCE = [sentence(max(length, 6), start=7) for length in LENGTHS]
HYPOTHESES = [line.replace("w9", "x") if i % 2 else line for i, line in enumerate(REFERENCE)]


def test_each_sentence_is_in_the_group_of_its_length():
    found = bleu_by_length(SOURCES, HYPOTHESES, [REFERENCE])
    assert [(each.shortest, each.longest, each.sentences) for each in found] == [
        (0, 5, 3),
        (6, 10, 2),
        (11, 15, 2),
        (41, 50, 1),
        (101, None, 2),
    ]
    assert sum(each.sentences for each in found) == len(SOURCES)


def test_a_group_is_scored_as_a_corpus_of_its_own():
    for found in bleu_by_length(SOURCES, HYPOTHESES, [REFERENCE], tokenize="none"):
        lines = [i for i, n in enumerate(LENGTHS) if found.shortest <= n <= (found.longest or max(LENGTHS))]
        hypotheses, reference = ([texts[i] for i in lines] for texts in (HYPOTHESES, REFERENCE))
        [score] = corpus_scores(hypotheses, [reference], tokenize="none", bootstrap=0, metrics=("bleu",))
        assert found.bleu == pytest.approx(score.value)


def test_several_references_stay_beside_their_lines():
    other = ["nothing of that at all here"] * len(SOURCES)
    both = bleu_by_length(SOURCES, REFERENCE, [other, REFERENCE])
    assert all(each.bleu == pytest.approx(100) for each in both)


def test_case_is_regarded_unless_it_is_not_to_be():
    upper = [line.upper() for line in REFERENCE]
    assert bleu_by_length(SOURCES, upper, [REFERENCE])[0].bleu < 1
    assert bleu_by_length(SOURCES, upper, [REFERENCE], lowercase=True)[0].bleu == pytest.approx(100)


def test_groups_grow():
    assert list(GROUP_LIMITS) == sorted(set(GROUP_LIMITS))


def test_texts_that_are_not_aligned_are_refused():
    with pytest.raises(DataError, match="the source has 9 lines, the reference 10"):
        bleu_by_length(SOURCES[1:], HYPOTHESES, [REFERENCE])
    with pytest.raises(DataError, match="no line"):
        bleu_by_length([], [], [[]])
