"""Classification metrics agree with their definitions, and intervals with their coverage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.evaluation.class_scores import class_scores
from regard.evaluation.classification import (
    accuracy,
    bootstrap_interval,
    confusion,
    macro_f1,
    table_interval,
)
from regard.evaluation.proportion import wilson_interval

LABELS = [0, 0, 0, 1, 1, 2]
PREDICTIONS = [0, 0, 1, 1, 0, 1]
answers = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60)


def test_an_example_by_hand():
    table = confusion(LABELS, PREDICTIONS, 4)
    assert table.tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]]
    assert accuracy(table) == 0.5
    assert macro_f1(table) == pytest.approx((2 / 3 + 2 / 5 + 0) / 3), (
        "a class that never occurs does not count"
    )


@given(answers)
def test_tables_keep_to_the_definitions(pairs):
    truth, message = (list(each) for each in zip(*pairs, strict=True))
    table = confusion(truth, message, 4)
    assert accuracy(table) == pytest.approx(np.mean(np.array(truth) == np.array(message)))
    scores = []
    for number in set(truth) | set(message):
        right = sum(t == m == number for t, m in pairs)
        scores.append(2 * right / (truth.count(number) + message.count(number)))
    assert macro_f1(table) == pytest.approx(np.mean(scores))
    classes = [each for each in class_scores(table, "abcd") if each.count or each.predicted]
    assert macro_f1(table) == pytest.approx(np.mean([each.f1 / 100 for each in classes]))
    assert sum(each.recall * each.count for each in classes) == pytest.approx(100 * np.trace(table))
    assert sum(each.precision * each.predicted for each in classes) == pytest.approx(100 * np.trace(table))


@given(answers, st.permutations(range(4)))
def test_the_names_of_classes_do_not_matter(pairs, names):
    truth, message = (list(each) for each in zip(*pairs, strict=True))
    table = confusion(truth, message, 4)
    renamed = confusion([names[t] for t in truth], [names[s] for s in message], 4)
    assert accuracy(renamed) == accuracy(table)
    assert macro_f1(renamed) == pytest.approx(macro_f1(table))


def test_resampled_answers_agree_with_wilson_and_repeat_themselves():
    table = np.array([[80, 20], [10, 90]])
    low, high = table_interval(table, accuracy)
    assert (low, high) == pytest.approx(wilson_interval(170, 200), abs=0.01)
    assert table_interval(table, accuracy) == (low, high)
    low, high = table_interval(table, macro_f1)
    assert low < macro_f1(table) < high


def test_answers_that_hang_together_are_less_sure():
    apart = bootstrap_interval([1, 0] * 200, [1] * 400)
    assert apart == pytest.approx(wilson_interval(200, 400), abs=0.01)
    together = bootstrap_interval([10, 0] * 20, [10] * 40)
    assert together[1] - together[0] > 2 * (apart[1] - apart[0])


def test_what_is_always_right_is_sure():
    assert table_interval(np.array([[7, 0], [0, 3]]), accuracy) == (1.0, 1.0)
    assert bootstrap_interval([3, 4], [3, 4]) == (1.0, 1.0)


def test_groups_of_nothing_are_no_division_by_zero():
    assert bootstrap_interval([0, 0], [0, 0]) == (0.0, 0.0)
