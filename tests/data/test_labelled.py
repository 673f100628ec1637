"""Labelled texts: columns, line numbers of errors, a stable order of classes, stratified splits."""

import json

import pytest

from regard.data.corpus import LinePolicy
from regard.data.labelled import (
    LabelledSettings,
    LabelSet,
    class_weights,
    classes_of,
    numeric_labels,
    open_labelled,
    split,
)
from regard.errors import DataError, RecipeError


def corpus(folder, text, policy=None, *, classes=False, **settings):
    (folder / "texts").write_text(text, "utf-8")
    reads = LabelledSettings(file="texts", **settings)
    return open_labelled(reads, policy or LinePolicy(), folder, classes=classes)


def rows(*arguments, **settings):
    return [(pair.source, pair.target, pair.line) for pair in corpus(*arguments, **settings)]


# Forms


def test_a_label_before_the_text(tmp_path):
    assert rows(tmp_path, "1 a  good film\n0 bad\n", format="labelled") == [
        ("a  good film", "1", 1),
        ("bad", "0", 2),
    ]


def test_columns_of_a_table(tmp_path):
    text = "7\tgood\tpos\n8\tbad\tneg\n"
    fields = {"text_field": "1", "label_field": "2"}
    assert rows(tmp_path, text, format="tsv", **fields) == [("good", "pos", 1), ("bad", "neg", 2)]


def test_named_columns_of_a_table(tmp_path):
    text = "label\tid\tsentence\npos\t7\tgood\n"
    found = rows(tmp_path, text, format="tsv", header=True, text_field="sentence")
    assert found == [("good", "pos", 2)], "the header is line 1"


def test_keys_of_json_lines(tmp_path):
    text = "".join(
        json.dumps({"text": f"text {label}", "label": label}) + "\n" for label in ("x", 3, True, 2.5)
    )
    found = rows(tmp_path, text, format="jsonl")
    assert [label for _, label, _ in found] == ["x", "3", "true", "2.5"]


def test_an_empty_text_is_left_out_and_counted(tmp_path):
    found = corpus(tmp_path, "1 \n1 good\n1\n", format="labelled")
    assert [pair.line for pair in found] == [2]
    assert found.skipped == {"empty": 2}


# Mistakes


@pytest.mark.parametrize(
    ("text", "settings", "place"),
    [
        ("good\tpos\nbad\n", {"format": "tsv"}, ":2: 1 columns, but line 1 has 2"),
        ("good\tpos\nbad\tneg\tmore\n", {"format": "tsv"}, ":2: 3 columns, but line 1 has 2"),
        ("good\n", {"format": "tsv"}, ":1: 1 columns, so there is no column 1"),
        ("good\tpos\nbad\t \n", {"format": "tsv"}, ":2: no label"),
        ("text\tclass\na\tb\n", {"format": "tsv", "header": True}, ":1: the header has no column 'label'"),
        ("text\ttext\tlabel\n", {"format": "tsv", "header": True}, ":1: the header has several columns"),
        ('{"text": "a", "label": "b"}\n{"text": "a"}\n', {"format": "jsonl"}, ":2: 'label' is missing"),
        ('{"text": "a", "label": null}\n', {"format": "jsonl"}, ":1: 'label' is not a label"),
        ('{"text": 3, "label": "b"}\n', {"format": "jsonl"}, ":1: 'text' is not text"),
        ("[1]\n", {"format": "jsonl"}, ":1: a JSON list"),
        ("{\n", {"format": "jsonl"}, ":1: not JSON"),
        (" good\n", {"format": "labelled"}, ":1: no label"),
        ('{"text": "a", "label": NaN}\n', {"format": "jsonl"}, r":1: 'label' is nan, not a finite number"),
        (
            '{"text": "a", "label": -Infinity}\n',
            {"format": "jsonl"},
            r":1: 'label' is -inf, not a finite number",
        ),
    ],
)
def test_a_broken_line_is_named(tmp_path, text, settings, place):
    with pytest.raises(DataError, match="texts" + place) as caught:
        rows(tmp_path, text, **settings)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "settings", "place"),
    [
        (
            '{"text": "a", "label": 1}\n{"text": "a", "label": 1.0}\n',
            {"format": "jsonl"},
            ":2: 'label' is 1.0",
        ),
        ('{"text": "a", "label": 1e999}\n', {"format": "jsonl"}, ":1: 'label' is inf"),
        ('{"text": "a", "label": "NaN"}\n', {"format": "jsonl"}, ":1: the label is 'NaN'"),
        ("good\tpos\nbad\tnan\n", {"format": "tsv"}, ":2: the label is 'nan'"),
        ("text\tlabel\nbad\t NaN\n", {"format": "tsv", "header": True}, ":2: the label is ' NaN'"),
        ("good\tpos\nbad\t\n", {"format": "tsv"}, ":2: no label"),
        ("pos good\nNAN bad\n", {"format": "labelled"}, ":2: the label is 'NAN'"),
    ],
)
def test_what_names_no_class_is_named(tmp_path, text, settings, place):
    with pytest.raises(DataError, match="texts" + place) as caught:
        rows(tmp_path, text, classes=True, **settings)
    assert caught.value.hint


def test_classes_are_texts_integers_and_booleans(tmp_path):
    text = "".join(json.dumps({"text": "a", "label": label}) + "\n" for label in ("nanny", 3, True, "2.5"))
    found = rows(tmp_path, text, classes=True, format="jsonl")
    assert [label for _, label, _ in found] == ["nanny", "3", "true", "2.5"]


def test_broken_lines_are_skipped_if_the_policy_says_so(tmp_path):
    found = corpus(tmp_path, "good\tpos\nbad\n", LinePolicy(malformed="skip"), format="tsv")
    assert len(list(found)) == 1
    assert found.skipped == {"malformed": 1}


@pytest.mark.parametrize(
    "settings",
    [
        {"format": "labelled", "text_field": "1"},
        {"format": "labelled", "header": True},
        {"format": "tsv", "text_field": "text"},
    ],
)
def test_settings_that_contradict_each_other_are_refused(settings):
    with pytest.raises(RecipeError):
        LabelledSettings(file="texts", **settings)


def test_the_fingerprint_knows_the_columns_and_not_the_place(tmp_path):
    text = "a\tb\tc\n"
    prints = set()
    for name, settings in {"one": {}, "other": {}, "third": {"label_field": "2"}}.items():
        (tmp_path / name).mkdir()
        prints.add(corpus(tmp_path / name, text, format="tsv", **settings).fingerprint())
    assert len(prints) == 2


# Classes


def test_classes_have_a_fixed_order():
    assert LabelSet.of(["10", "9", "-1", "9"], {}).names == ("-1", "9", "10")
    assert LabelSet.of(["b", "a", "10"], {}).names == ("10", "a", "b")
    assert LabelSet.of(["a", "b"], {}) == LabelSet.of(["b", "a", "b"], {})


def test_classes_can_have_other_names_and_share_them():
    labels = LabelSet.of(["0", "1", "2"], {"0": "bad", "1": "bad", "2": "good"})
    assert labels.names == ("bad", "good")
    assert labels.numbers == {"0": 0, "1": 0, "2": 1}
    with pytest.raises(RecipeError, match="'3'"):
        LabelSet.of(["0", "1"], {"3": "three"})


def test_one_class_is_none():
    with pytest.raises(DataError, match="one label, 'a'"):
        LabelSet.of(["a", "a"], {})


def test_a_label_that_does_not_occur_in_training_is_named(tmp_path):
    labels = LabelSet.of(["pos", "neg"], {})
    found = corpus(tmp_path, "pos good\nneu so so\n", format="labelled")
    with pytest.raises(DataError, match="texts:2: label 'neu' does not occur in training") as caught:
        classes_of(found, list(found), labels)
    assert "neg" in caught.value.hint


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "high", "1,5"])
def test_a_number_that_is_none_is_named(tmp_path, value):
    found = corpus(tmp_path, f"1.5 good\n{value} bad\n", format="labelled")
    with pytest.raises(DataError, match=f"texts:2: '{value}' is not a finite number"):
        numeric_labels(found, list(found))


def test_numbers_are_read(tmp_path):
    found = corpus(tmp_path, "1.5 good\n-2e-3 bad\n", format="labelled")
    assert numeric_labels(found, list(found)) == [1.5, -0.002]


# Splits and weights


def test_a_split_takes_its_share_of_each_class():
    groups = [0] * 100 + [1] * 10 + [2] * 2 + [3]
    train, valid = split(groups, 0.1, seed=1)
    assert sorted(train + valid) == list(range(113))
    taken = [groups[number] for number in valid]
    assert [taken.count(group) for group in range(4)] == [10, 1, 1, 0]


def test_a_split_depends_on_its_seed_alone():
    groups = [number % 3 for number in range(60)]
    assert split(groups, 0.2, seed=1) == split(groups, 0.2, seed=1)
    assert split(groups, 0.2, seed=1) != split(groups, 0.2, seed=2)


def test_balanced_weights_make_classes_count_alike():
    classes = [0] * 6 + [1] * 3 + [2]
    weights = class_weights("balanced", classes, ("a", "b", "c"))
    assert weights is not None
    sums = [classes.count(number) * weights[number] for number in range(3)]
    assert sums == pytest.approx([10 / 3] * 3)
    assert sum(sums) == pytest.approx(len(classes))


def test_weights_can_be_given_and_must_fit():
    assert class_weights("none", [0, 1], ("a", "b")) is None
    assert class_weights({"b": 2, "a": 0.5}, [0, 1], ("a", "b")) == (0.5, 2.0)
    for table in (
        {"a": 1},
        {"a": 1, "b": 1, "c": 1},
        {"a": 1, "b": 0},
        {"a": 1, "b": "2"},
        {"a": 1, "b": True},
    ):
        with pytest.raises(RecipeError, match="class_weights"):
            class_weights(table, [0, 1], ("a", "b"))
