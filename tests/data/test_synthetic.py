"""Synthetic tasks: reproducible from the seed, correct, and with disjoint splits."""

import builtins
import datetime
import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.synthetic import (
    DATE_LANGUAGES,
    TASKS,
    number_name,
    read_numbers,
    split_of,
    synthetic_pairs,
)
from regard.errors import DataError, MissingExtra

pytest.importorskip("babel", reason="Babel is the extra `demo`")


@pytest.mark.parametrize("task", TASKS)
def test_a_seed_makes_the_pairs_and_a_larger_set_begins_with_a_smaller_one(task):
    short = list(synthetic_pairs(task, size=20, seed=7))
    long = list(synthetic_pairs(task, size=40, seed=7))
    assert len(long) == 40
    assert long[:20] == short
    assert list(synthetic_pairs(task, size=20, seed=8)) != short


@pytest.mark.parametrize(("task", "side"), [("dates", 1), ("numbers", 0), ("reverse", 0), ("sort", 0)])
def test_no_example_of_a_test_split_is_ever_trained_on(task, side):
    def subjects(split, seed):
        return {pair[side] for pair in synthetic_pairs(task, size=300, seed=seed, split=split)}

    train, valid, test = subjects("train", 1), subjects("valid", 1), subjects("test", 2)
    assert train.isdisjoint(test)
    assert train.isdisjoint(valid)
    assert valid.isdisjoint(test)
    assert len(test) > 200


def test_nineteen_of_twenty_and_more_subjects_stay_for_training():
    splits = [split_of(str(number)) for number in range(10_000)]
    assert 0.04 < splits.count("test") / 10_000 < 0.06
    assert 0.04 < splits.count("valid") / 10_000 < 0.06


@pytest.mark.parametrize(
    "form",
    [
        r"(lun|mar|mercre|jeu|vendre|same)di \d+ novembre \d{4}",
        r"november the \d+(st|nd|rd|th), \d{4}",
        r"the \d+(st|nd|rd|th) of may \d{4}",
        r"\d+ nov \d\d",
        r"\d+/\d+/\d\d",
        r"\d{4}-\d\d-\d\d",
    ],
)
def test_dates_are_written_as_people_write_them(form):
    pairs = synthetic_pairs("dates", size=5000, seed=0, languages=("en", "fr"))
    assert any(re.fullmatch(form, source.lower()) for source, _ in pairs)


def test_a_text_never_names_two_dates():
    named = {}
    for source, target in synthetic_pairs("dates", size=10_000, seed=5):
        assert named.setdefault(source.lower(), target) == target
    assert len(named) > 9000


def test_a_written_date_has_its_day_and_the_end_of_its_year():
    for source, target in synthetic_pairs("dates", size=1000, seed=1, split="test"):
        date = datetime.date.fromisoformat(target)
        assert str(date.day) in source
        assert f"{date.year % 100:02}" in source


@pytest.mark.parametrize(
    ("numbers", "date"),
    [
        ("2026-11-12", "2026-11-12"),  # a year in front: year, month, day
        ("11-12-2026", "2026-12-11"),  # otherwise the day first
        ("11-21-2026", "2026-11-21"),  # unless only the second can be a day
        ("31-12-68", "2068-12-31"),
        ("31-12-69", "1969-12-31"),
        ("13-13-2026", None),
        ("31-02-2026", None),
    ],
)
def test_numbers_alone_are_read_by_the_stated_rule(numbers, date):
    found = read_numbers(*numbers.split("-"))
    assert (found and found.isoformat()) == date


def test_a_date_of_numbers_keeps_the_rule_in_every_language():
    every = synthetic_pairs("dates", size=5000, seed=3, languages=("en", "de", "sv", "hu", "ja"))
    for source, target in every:
        numbers = "".join(c if c.isdigit() else " " for c in source).split()
        if len(numbers) == 3:
            assert read_numbers(*numbers) == datetime.date.fromisoformat(target)


def test_languages_are_those_of_the_settings():
    german = " ".join(source for source, _ in synthetic_pairs("dates", size=500, seed=0, languages=("de",)))
    assert "Dezember" in german
    assert "December" not in german
    assert len(DATE_LANGUAGES) == 12


@pytest.mark.parametrize(
    ("number", "name"),
    [
        (0, "zero"),
        (14, "fourteen"),
        (40, "forty"),
        (100, "one hundred"),
        (40_217, "forty thousand two hundred seventeen"),
        (999_999, "nine hundred ninety-nine thousand nine hundred ninety-nine"),
    ],
)
def test_numbers_have_their_english_names(number, name):
    assert number_name(number) == name


@given(st.integers(0, 999_999), st.integers(0, 999_999))
def test_different_numbers_have_different_names(one, other):
    assert (number_name(one) == number_name(other)) == (one == other)


@given(st.sampled_from(["reverse", "copy", "sort"]), st.integers(8, 30), st.integers(5, 50))
def test_sequences_have_the_length_and_the_symbols_of_the_settings(task, length, symbols):
    expected = {"reverse": lambda x: x[::-1], "copy": list, "sort": sorted}[task]
    for source, target in synthetic_pairs(task, size=3, seed=0, length=length, symbols=symbols):
        sequence = [int(symbol) for symbol in source.split(" ")]
        assert len(sequence) == length
        assert max(sequence) < symbols
        assert [int(symbol) for symbol in target.split(" ")] == expected(sequence)


def test_pairs_are_generated_lazily():
    endless = synthetic_pairs("copy", size=10**12, seed=0)
    assert len(list(itertools.islice(endless, 3))) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "datse"}, "'dates'"),
        ({"task": "dates", "languages": ("qq",)}, "en, de"),
        ({"task": "copy", "symbols": 1}, "symbols = 10"),
    ],
)
def test_a_mistake_is_reported_at_once_with_a_hint(arguments, message):
    with pytest.raises(DataError) as caught:
        synthetic_pairs(**arguments, size=1, seed=0)
    assert message in caught.value.hint


def test_a_task_with_too_few_examples_for_a_split_is_refused():
    with pytest.raises(DataError, match="too few"):
        list(synthetic_pairs("copy", size=1, seed=0, length=1, symbols=2, split="test"))


def test_without_babel_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name.startswith("babel"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtra, match="Babel") as caught:
        synthetic_pairs("dates", size=1, seed=0)
    assert "regard[demo]" in caught.value.hint
