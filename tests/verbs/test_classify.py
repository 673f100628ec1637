"""Texts -> classes: in order, independent of the batch, never by an untrained head."""

import json
import re

import pytest
import torch

from regard.errors import DataError, FolderError, UserError
from regard.verbs.classify import MAX_CHARACTERS, Classifier, classify, classify_file, output_lines
from regard.verbs.line_jobs import classify_job
from regard.verbs.shared.texts import strings
from regard.verbs.translate import translate

LINES = ["a good film", "", "the cat sat on the mat .", " \t ", "bad", "unbelievability " * 30, "?"]
LABELS = ("negative", "neutral", "positive")


@pytest.fixture(scope="module")
def model(encoder_folder):
    return encoder_folder("classification", LABELS)


def test_a_text_gives_a_label_and_several_give_several(model):
    one = classify("a good film", model=model)
    assert one in LABELS
    several = classify(LINES, model=model)
    assert several[0] == one
    assert [label is None for label in several] == [not line.strip() for line in LINES]


@pytest.mark.parametrize("batch_tokens", [1, 40, 8192])
def test_neither_batch_nor_neighbours_change_the_output(model, batch_tokens):
    classifier = Classifier(model, top=3, batch_tokens=batch_tokens)
    together = [output_lines(each, as_json=True) for each in classifier(LINES)]
    for number, line in enumerate(LINES):
        [alone] = Classifier(model, top=3)([line])
        [beside] = [json.loads(together[number])]
        assert {**alone.to_dict(), "line": number + 1} == beside


def test_classes_come_most_probable_first_and_probabilities_add_up(model):
    for each in Classifier(model, top=3)(["a good film", "bad"]):
        shares = [candidate.probability for candidate in each.candidates]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) == pytest.approx(1)
        assert {candidate.label for candidate in each.candidates} == set(LABELS)
        assert each.label == classify(each.text, model=model)
    ranked = classify("bad", model=model, top=2)
    assert len(ranked) == 2
    assert classify(["bad", ""], model=model, top=2) == [ranked, []]


def test_a_value_that_is_no_text_is_refused_with_the_expected_type(model):
    with pytest.raises(DataError, match="text 2 is int, not a string") as caught:
        classify(iter(["bad", 1]), model=model)
    assert "str" in caught.value.hint
    for given in (7, None, b"bad"):
        with pytest.raises(DataError, match="not a string"):
            list(strings(given))


def test_lines_without_end_are_classified_as_they_come(model):
    came = Classifier(model).in_chunks(["bad"] for _ in iter(lambda: 7, None))
    assert [next(came).line for _ in range(3)] == [1, 2, 3]


def test_a_text_that_is_too_long_is_cut_with_a_warning(model, encoder_folder, capsys):
    long = "bad " * MAX_CHARACTERS
    found = classify(["bad", long[: 4 * 2000]], model=model)
    assert capsys.readouterr().err == "", "rotary positions do not end"
    assert len(found) == 2
    short = encoder_folder("classification", LABELS, positions="learned", max_positions=8)
    assert classify(["bad " * 100], model=short) == [classify("bad bad bad bad bad bad", model=short)]
    assert "line 1 is too long" in capsys.readouterr().err


def test_a_model_of_numbers_gives_numbers(encoder_folder):
    model = encoder_folder("regression")
    one = classify("a good film", model=model)
    assert isinstance(one, float)
    assert classify(["a good film", ""], model=model) == [pytest.approx(one, abs=1e-5), None]
    [first, empty] = Classifier(model)(["a good film", ""])
    assert float(output_lines(first)) == pytest.approx(one, rel=1e-5)
    assert json.loads(output_lines(first, as_json=True)).keys() == {"line", "text", "value"}
    assert output_lines(empty) == "\n"


def test_the_cell_of_an_empty_text_is_empty_whatever_the_head(encoder_folder):
    for head, labels in (("regression", ()), ("classification", LABELS)):
        job = classify_job(model=encoder_folder(head, labels))
        filled, empty = job.cells(["a good film", ""], 1)
        assert filled is not None
        assert empty is None


def test_a_head_that_nobody_trained_is_silent_unless_it_is_allowed_to_speak(encoder_folder):
    fresh = encoder_folder("classification", LABELS, fresh_head=True)
    with pytest.raises(FolderError, match="the head of this model is untrained") as caught:
        classify("bad", model=fresh)
    assert "--allow-fresh-head" in caught.value.hint
    assert classify("bad", model=fresh, allow_fresh_head=True) in LABELS


def test_a_model_for_something_else_says_what_it_is_for(encoder_folder, untrained):
    with pytest.raises(FolderError, match="its head is 'tokens'") as caught:
        classify("bad", model=encoder_folder("tokens", ("A", "B")))
    assert "regard tag" in caught.value.hint
    with pytest.raises(FolderError, match="not a model that classifies") as caught:
        classify("bad", model=untrained)
    assert "regard translate" in caught.value.hint


def test_a_file_is_read_line_by_line(model, tmp_path):
    (tmp_path / "texts").write_text("".join(f"{line}\n" for line in LINES))
    assert classify_file(tmp_path / "texts", model=model) == classify(LINES, model=model)


def test_what_is_printed(model):
    good, empty = Classifier(model, top=2)(["a good film", ""])
    first, second = good.candidates
    assert output_lines(good) == f"{first.label}\t{first.probability:.4f}\n"
    ranked = output_lines(good, ranked=True).splitlines()
    assert ranked == [f"1\t{each.label}\t{each.probability:.4f}" for each in (first, second)]
    assert (output_lines(empty), output_lines(empty, ranked=True)) == ("\n", "")
    assert json.loads(output_lines(empty, as_json=True)) == {
        "line": 2,
        "text": "",
        "label": None,
        "candidates": [],
    }


def test_a_folder_whose_head_nobody_trained_is_refused_with_the_reason(their_encoder):
    for model in ("BertModel", "DistilBertModel", "RobertaModel"):
        with pytest.raises(FolderError, match="classifies texts: it has no trained head") as raised:
            Classifier(their_encoder(model)[0])
        assert "regard train RECIPE --init" in raised.value.hint
    with pytest.raises(FolderError, match="its head is 'masked_language_model'") as raised:
        Classifier(their_encoder("BertForMaskedLM")[0])
    assert "regard fill" in raised.value.hint


@pytest.mark.parametrize("model", ["BertForSequenceClassification", "DistilBertForSequenceClassification"])
@torch.no_grad()
def test_a_folder_whose_head_was_trained_says_what_it_said_there(their_encoder, model):
    names = {0: "bad", 1: "so", 2: "good"}
    folder, theirs, vocabulary = their_encoder(model, id2label=names, label2id={"bad": 0, "so": 1, "good": 2})
    words = ["[CLS]", "a", "good", "film", "[SEP]"]
    shares = theirs(torch.tensor([[vocabulary.index(word) for word in words]])).logits[0].softmax(-1)
    found = classify("A good film", model=folder, top=3)
    assert dict(found) == pytest.approx({names[n]: float(share) for n, share in enumerate(shares)}, abs=1e-5)


def test_a_model_of_numbers_has_no_most_probable_classes(encoder_folder):
    model = encoder_folder("regression")
    with pytest.raises(UserError, match="top = 2 asks for the most probable classes") as caught:
        classify("good", model=model, top=2)
    assert "--top" in caught.value.hint
    [empty] = Classifier(model)([""])
    assert json.loads(output_lines(empty, as_json=True)) == {"line": 1, "text": "", "value": None}


@pytest.mark.parametrize(
    ("head", "labels", "command"),
    [("classification", LABELS, "classify"), ("regression", (), "classify"), ("tokens", LABELS, "tag")],
)
def test_a_model_for_something_else_names_the_one_command_for_it(encoder_folder, head, labels, command):
    model = encoder_folder(head, labels)
    with pytest.raises(FolderError) as caught:
        translate("hello", model=model)
    assert re.findall("`regard ([a-z]+) --model", caught.value.hint) == [command]
    assert str(model) in caught.value.hint
