"""Scores are those of sacreBLEU, with its signatures; intervals and significance are valid."""

import json
import logging
import subprocess
import sys

import pytest

from regard.errors import DataError
from regard.evaluation.translation import compare_systems, corpus_scores, tokenization_warnings

REFERENCE = [
    "The cat sat on the mat, and it purred.",
    "A dog runs through the tall grass!",
    "Two men are talking in front of a shop.",
    "She reads a book about the sea.",
    "It is raining again in the old town.",
    "",
] * 8  # 48 lines: of fewer than 30 there is no interval
SECOND = [line.replace("The cat", "A cat").replace("talking", "speaking") for line in REFERENCE]
GOOD = [line.replace("dog", "Hound") for line in REFERENCE]
POOR = [" ".join(line.split()[::-1]) for line in REFERENCE]


@pytest.mark.parametrize(("word_order", "chrf"), [(2, "chrf"), (0, "chrf2")])
def test_scores_and_intervals_are_those_of_the_sacrebleu_command(tmp_path, word_order, chrf):
    for name, lines in (("out", POOR), ("ref1", REFERENCE), ("ref2", SECOND)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", "utf-8")
    command = f"-i {tmp_path}/out -m bleu chrf ter --chrf-word-order {word_order} --confidence -w 6"
    answer = subprocess.run(
        [sys.executable, "-m", "sacrebleu", f"{tmp_path}/ref1", f"{tmp_path}/ref2", *command.split()],
        capture_output=True,
        check=True,
        text=True,
    )
    expected = json.loads(answer.stdout)
    ours = corpus_scores(POOR, [REFERENCE, SECOND], metrics=("bleu", chrf, "ter"))
    assert [score.name for score in ours] == [score["name"] for score in expected]
    for our, theirs in zip(ours, expected, strict=True):
        assert our.signature == theirs["signature"]
        assert our.value == pytest.approx(theirs["score"], abs=1e-5)
        assert our.high is not None
        assert our.low is not None
        assert (our.high - our.low) / 2 == pytest.approx(theirs["confidence_var"], abs=1e-5)


def test_what_equals_a_reference_is_perfect():
    bleu, chrf, chrf2, ter = corpus_scores(REFERENCE, [SECOND, REFERENCE])
    assert bleu.value == pytest.approx(100)
    assert chrf.value == pytest.approx(100)
    assert chrf2.value == pytest.approx(100)
    assert ter.value == 0
    assert "nrefs:2" in bleu.signature


def test_settings_are_kept_and_are_in_the_signature():
    upper = [line.upper() for line in REFERENCE]
    cased = corpus_scores(upper, [REFERENCE])[0]
    uncased = corpus_scores(upper, [REFERENCE], lowercase=True, tokenize="none")[0]
    assert cased.value < 10
    assert uncased.value == pytest.approx(100)
    assert "case:mixed" in cased.signature
    assert "tok:13a" in cased.signature
    assert "case:lc" in uncased.signature
    assert "tok:none" in uncased.signature


def test_an_interval_contains_the_score_and_is_optional():
    for score in corpus_scores(GOOD, [REFERENCE]):
        assert score.low < score.value < score.high
        assert "bs:1000|seed:12345" in score.signature
    (bleu,) = corpus_scores(GOOD, [REFERENCE], bootstrap=0, metrics=("bleu",))
    assert (bleu.low, bleu.high) == (None, None)
    assert "bs:" not in bleu.signature


def test_few_sentences_have_scores_and_no_interval():
    """The interval from resampling 29 sentences would be too narrow."""
    lines = [f"the cat number {number} sat on the mat" for number in range(30)]
    for count, has in ((29, False), (30, True)):
        for score in corpus_scores(lines[:count], [[f"{line} ." for line in lines[:count]]]):
            assert (score.low is not None) is (score.high is not None) is has
            assert ("bs:" in score.signature) is has
    for comparison in compare_systems({"a": lines[:29], "b": POOR[:29]}, [lines[:29]], bootstrap=10):
        assert {(each.low, each.high) for each in comparison.systems} == {(None, None)}


def test_the_same_call_gives_the_same_intervals():
    assert corpus_scores(POOR, [REFERENCE]) == corpus_scores(POOR, [REFERENCE])


@pytest.mark.parametrize("reference", [["", ""], ["a b", "c"]])
def test_empty_outputs_are_scored(reference):
    bleu, chrf, *_ = corpus_scores(["", ""] * 15, [reference * 15])
    assert bleu.value == chrf.value == 0.0
    assert bleu.low == bleu.high == 0.0


def test_a_line_may_have_fewer_references():
    (bleu,) = corpus_scores(GOOD, [REFERENCE, [None] * len(GOOD)], metrics=("bleu",), bootstrap=0)
    assert bleu.value == corpus_scores(GOOD, [REFERENCE], bootstrap=0)[0].value
    mixed = [None if line % 2 else text for line, text in enumerate(SECOND)]
    assert "nrefs:var" in corpus_scores(GOOD, [REFERENCE, mixed], bootstrap=0)[0].signature


def test_a_clear_difference_is_significant_and_none_is_not():
    for comparison in compare_systems({"good": GOOD, "poor": POOR, "again": GOOD}, [REFERENCE]):
        good, poor, again = comparison.systems
        assert [score.system for score in comparison.systems] == ["good", "poor", "again"]
        assert good.p_value is None
        assert poor.p_value < 0.05
        assert again.p_value == 1.0
        assert again.value == good.value
        assert "bs:1000|seed:12345" in comparison.signature
    bleu = corpus_scores(GOOD, [REFERENCE])[0]
    first = compare_systems({"good": GOOD, "poor": POOR}, [REFERENCE])[0].systems[0]
    assert (first.value, first.low, first.high) == pytest.approx((bleu.value, bleu.low, bleu.high), abs=1e-4)


def test_systems_that_cannot_be_compared_are_named():
    with pytest.raises(DataError, match="short has 1 line, the reference 48"):
        compare_systems({"good": GOOD, "short": ["a"]}, [REFERENCE])
    with pytest.raises(DataError, match="there is no output"):
        compare_systems({}, [REFERENCE])


def test_unequal_lines_and_unknown_tokenisers_are_refused():
    with pytest.raises(DataError, match="the output has 47 lines"):
        corpus_scores(GOOD[1:], [REFERENCE])
    with pytest.raises(DataError) as caught:
        corpus_scores(GOOD, [REFERENCE], tokenize="13b")
    assert "13a" in caught.value.hint


def test_text_that_does_not_fit_its_tokenisation_is_returned_as_a_warning(caplog):
    tokenized, plain = ["a cat sits ."] * 120, ["a cat sits."] * 120
    with caplog.at_level(logging.WARNING):
        corpus_scores(tokenized, [plain], bootstrap=0)
    assert not caplog.records
    assert "--tokenize none" in tokenization_warnings(tokenized)[0]
    assert "--tokenize none" in tokenization_warnings(plain, tokenize="none")[0]
    assert (
        tokenization_warnings(tokenized, tokenize="none")
        == tokenization_warnings(plain)
        == tokenization_warnings([])
        == []
    )
