"""Edit distance is a metric; error rates use the nearest reference."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import DataError
from regard.evaluation.sequences import edit_distance, exact_matches, word_edits

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


def test_a_line_counts_its_edits_and_the_words_of_its_reference():
    assert word_edits(["K AE T", "D AO G"], [["K AE T S", "D AA G"]]) == ([1, 1], [4, 3])


def test_the_nearest_of_several_references_counts():
    hypotheses = ["a b", "c d e"]
    far, near = ["x y z", "c"], ["a b", None]
    assert word_edits(hypotheses, [far, near]) == ([0, 2], [2, 1])
    assert exact_matches(hypotheses, [far, near]) == 1
    assert exact_matches(hypotheses, [far]) == 0


def test_an_empty_output_has_every_word_wrong_and_an_empty_reference_no_word():
    assert word_edits(["", ""], [["a b", ""]]) == ([2, 0], [2, 0])


@pytest.mark.parametrize("measure", [exact_matches, word_edits])
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
def test_what_is_not_aligned_is_refused(measure, hypotheses, references, message):
    with pytest.raises(DataError, match=message):
        measure(hypotheses, references)
