"""Languages of held-out sentences are detected as often as the documentation says."""

import os

import pytest

from benchmarks.languages import FILES, KNOWN, LINES, accuracy, sentences


def test_accuracy_counts_of_all_languages_and_of_three():
    lines = ["Wo ist bitte der nächste Bahnhof?", "Kde je prosím nejbližší nádraží?"]
    assert accuracy(lines, "de")[0] == 0.5
    assert accuracy(lines, "cs") == (0.5, 0.0)
    assert {*FILES.values()} == {*KNOWN}


@pytest.mark.skipif(not os.environ.get("REGARD_DATA"), reason="REGARD_DATA names no folder of data sets")
@pytest.mark.parametrize("file", FILES)
def test_held_out_sentences_are_detected(file):
    of_all, of_three = accuracy(sentences(file, LINES), FILES[file])
    assert of_all >= 0.97
    assert of_three >= 0.99
