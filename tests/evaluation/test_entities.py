"""Entities are those of conlleval and seqeval, in each of their schemes."""

import pytest

from regard.evaluation.entities import (
    are_entity_labels,
    entities,
    entity_counts,
    entity_scores,
    entity_type_scores,
)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("B-X I-X O B-Y", {(0, 2, "X"), (3, 4, "Y")}),  # BIO
        ("I-X I-X O I-Y", {(0, 2, "X"), (3, 4, "Y")}),  # IOB1
        ("I-X B-X I-X", {(0, 1, "X"), (1, 3, "X")}),  # IOB1: B- separates two of a type
        ("B-X E-X S-Y S-Y B-X I-X E-X", {(0, 2, "X"), (2, 3, "Y"), (3, 4, "Y"), (4, 7, "X")}),  # BIOES
        ("B-X L-X U-Y O", {(0, 2, "X"), (2, 3, "Y")}),  # BILOU
        ("B-X I-Y I-Y", {(0, 1, "X"), (1, 3, "Y")}),  # another type begins another entity
        ("O I-X O", {(1, 2, "X")}),
        ("S-X I-X", {(0, 1, "X"), (1, 2, "X")}),
        ("E-X E-X", {(0, 1, "X"), (1, 2, "X")}),
        ("B-A-B I-A-B", {(0, 2, "A-B")}),
        ("O O", set()),
        ("", set()),
    ],
)
def test_entities_of_each_scheme(labels, expected):
    assert entities(labels.split()) == expected


@pytest.mark.parametrize(
    ("labels", "here"),
    [  # by hand from conlleval's rules; seqeval's mode="strict" has no such entities
        ("O I-X I-X", {(1, 3, "X")}),  # strict BIO begins with B-
        ("I-X O", {(0, 1, "X")}),
        ("B-X I-X", {(0, 2, "X")}),  # strict BIOES ends with E-
        ("I-X E-X", {(0, 2, "X")}),  # strict BIOES begins with B-
        ("E-X", {(0, 1, "X")}),
        ("B-X O", {(0, 1, "X")}),  # strict BIOES: S- is one word
        ("B-X B-X", {(0, 1, "X"), (1, 2, "X")}),
        ("B-X S-X", {(0, 1, "X"), (1, 2, "X")}),  # strict has the second
        ("I-X I-Y", {(0, 1, "X"), (1, 2, "Y")}),
        ("U-X U-X", {(0, 1, "X"), (1, 2, "X")}),  # strict agrees; the default knows no U- and joins them
    ],
)
def test_labels_that_break_the_scheme_are_entities_as_conlleval_counts_them(labels, here):
    assert entities(labels.split()) == here


def test_only_all_that_is_right_counts():
    true = [["B-X", "I-X", "O"], ["B-Y", "O", "B-X"], ["O"]]
    predicted = [["B-X", "O", "O"], ["B-Y", "O", "B-Y"], ["B-X"]]
    counts = entity_counts(true, predicted)
    assert counts.tolist() == [[0, 1, 1], [1, 2, 2], [0, 1, 0]]
    assert entity_scores(counts) == {"precision": 1 / 4, "recall": 1 / 3, "f1": 2 / 7}
    assert set(entity_scores(entity_counts([["O"]], [["O"]])).values()) == {0.0}
    x, y = entity_type_scores(true, predicted)
    assert (x.label, x.count, x.predicted, x.f1) == ("X", 2, 2, 0.0)
    assert (y.label, y.count, y.predicted, y.precision, y.recall) == ("Y", 1, 2, 50.0, 100.0)
    assert y.f1 == pytest.approx(200 / 3)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [("O B-PER I-PER", True), ("I-X O", True), ("S-X E-X O", True), ("NOUN VERB", False), ("O", False)],
)
def test_labels_of_entities_are_known_by_their_form(labels, expected):
    assert are_entity_labels(labels.split()) is expected
