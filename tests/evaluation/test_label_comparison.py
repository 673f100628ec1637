"""Labels are compared by accuracy, and differences by McNemar's exact test."""

import itertools

import pytest

from regard.errors import DataError
from regard.evaluation.label_comparison import are_labels, compare_labels, mcnemar

GOLD = ["spam", "ham"] * 10


def test_the_test_is_exact():
    """Of five lines that one system alone gets right, all splits are counted."""
    for fewer in range(3):
        splits = itertools.product([True, False], repeat=5)
        expected = sum(min(sum(each), 5 - sum(each)) <= fewer for each in splits) / 2**5
        first = [True] * 5 + [True] * 7
        second = [True] * 0 + [False] * 5 + [True] * 7
        for place in range(fewer):
            first[place], second[place] = False, True
        assert mcnemar(first, second) == pytest.approx(expected)
        assert mcnemar(second, first) == pytest.approx(expected)
    assert mcnemar([True, False], [False, True]) == 1
    assert mcnemar([True] * 9, [True] * 9) == 1
    assert 0 < mcnemar([True] * 900, [False] * 900) < 1e-200


def test_a_system_that_equals_the_reference_is_perfect_and_the_first_is_the_baseline():
    worse = ["ham"] * 20
    found = compare_labels({"a": GOLD, "b": worse, "c": [f" {label} " for label in GOLD]}, GOLD)
    first, second, third = found.systems
    assert (first.value, second.value, third.value) == (100, 50, 100)
    assert (first.p_value, third.p_value) == (None, 1)
    assert second.p_value == pytest.approx(2 / 2**10)
    assert first.low < 100 == first.high
    assert "labels:20|classes:2" in found.signature


def test_case_counts_unless_it_is_ignored():
    upper = [label.upper() for label in GOLD]
    assert compare_labels({"a": upper}, GOLD).systems[0].value == 0
    assert compare_labels({"a": upper}, GOLD, lowercase=True).systems[0].value == 100


def test_files_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="19 lines, the reference 20"):
        compare_labels({"a": GOLD[1:]}, GOLD)
    with pytest.raises(DataError, match="no output to score"):
        compare_labels({}, GOLD)


def test_labels_are_few_short_lines_in_all_files():
    sentences = [f"the film number {number}" for number in range(20)]
    assert are_labels([GOLD, GOLD[::-1]])
    assert not are_labels([GOLD, sentences])
    assert not are_labels([sentences])
    assert not are_labels([["", "a"] * 10])
    assert not are_labels([["a sentence that is much longer than any label of a class is"] * 20])
    assert not are_labels([[], []])
    assert are_labels([GOLD[:20]])
    assert not are_labels([GOLD[:19], GOLD[:19]])
    assert not are_labels([["A dog runs."] * 2] * 2)
