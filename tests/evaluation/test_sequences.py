"""Edit distance is a metric; error rates use the nearest reference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.evaluation.sequences import (
    character_error_rate,
    edit_distance,
    exact_match,
    word_error_rate,
)

words = st.text(alphabet="abc", max_size=7)


@given(words, words)
def test_edit_distance_is_that_of_its_definition(one, other):
    def by_definition(one, other):
        if not one or not other:
            return len(one) + len(other)
        return min(
            by_definition(one[1:], other) + 1,
            by_definition(one, other[1:]) + 1,
            by_definition(one[1:], other[1:]) + (one[0] != other[0]),
        )

    assert edit_distance(one[:4], other[:4]) == by_definition(one[:4], other[:4])


@given(words, words, words)
def test_edit_distance_is_a_metric(one, other, third):
    assert edit_distance(one, other) == edit_distance(other, one)
    assert (edit_distance(one, other) == 0) == (one == other)
    assert edit_distance(one, third) <= edit_distance(one, other) + edit_distance(other, third)


def test_a_phoneme_error_rate_counts_edits_over_the_phonemes_of_the_reference():
    assert word_error_rate(["K AE T", "D AO G"], [["K AE T S", "D AA G"]]) == pytest.approx(2 / 7)


def test_the_nearest_of_several_references_counts():
    hypotheses = ["a b", "c d e"]
    far, near = ["x y z", "c"], ["a b", None]
    assert word_error_rate(hypotheses, [far, near]) == pytest.approx(2 / 3)
    assert exact_match(hypotheses, [far, near]) == 0.5
    assert exact_match(hypotheses, [far]) == 0.0


def test_an_empty_output_has_every_unit_wrong_and_an_empty_corpus_of_words_none():
    assert word_error_rate([""], [["a b"]]) == 1.0
    assert word_error_rate([""], [[""]]) == 0.0
    assert character_error_rate(["abd"], [["abc"]]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("rate", [exact_match, word_error_rate, character_error_rate])
@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        (["a", "b"], [["a"]], "the output has 2 lines, the reference 1"),
        (["a"], [["a"], ["a", "b"]], "the output has 1 line, reference 2 2"),
        ([], [[]], "no line"),
        (["a"], [], "no reference"),
        (["a", "b"], [["a", None], ["a", None]], "line 2 has no reference"),
    ],
)
def test_what_is_not_aligned_is_refused(rate, hypotheses, references, message):
    with pytest.raises(DataError, match=message):
        rate(hypotheses, references)
