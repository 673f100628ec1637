"""Sentences in, a label a word out; CoNLL-U comes back with one column filled and nothing else changed."""

import json

import pytest

from regard.data.conllu import Sentence
from regard.data.tagged import split_words
from regard.errors import DataError, FolderError
from regard.verbs.tag import Tagger, output_lines, tag, tag_file

LABELS = ("ADJ", "NOUN", "PUNCT", "VERB")
SENTENCES = ["the cat sat on the mat.", "", "bad film", " ", "unbelievability " * 400, "a"]
CONLLU = (
    "# text = the cat's mat\n"
    "1\tthe\tthe\t_\tDT\t_\t2\tdet\t_\t_\n"
    "2-3\tcat's\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No\n"
    "2\tcat\tcat\tX\tNN\tA=b\t0\troot\t_\t_\n"
    "3\t's\t's\t_\tPOS\t_\t2\tcase\t_\t_\n"
    "3.1\tmat\t_\tNOUN\t_\t_\t_\t_\t_\t_\n"
    "\n"
    "1\tgood film\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "\n"
)


@pytest.fixture(scope="module")
def model(encoder_folder):
    return encoder_folder("tokens", LABELS)


def test_each_word_gets_a_label(model):
    found = tag("the cat sat on the mat.", model=model)
    assert [word for word, _ in found] == ["the", "cat", "sat", "on", "the", "mat", "."]
    assert {label for _, label in found} <= set(LABELS)
    assert tag(["the", "cat", "sat", "on", "the", "mat", "."], model=model) == found
    assert [word for word, _ in tag("the mat.", words=True, model=model)] == ["the", "mat."]
    assert tag("", model=model) == []
    assert tag([], model=model) == []


def test_a_list_of_sentences_is_not_labelled_as_the_words_of_one(model):
    with pytest.raises(DataError, match="sentences, not the words of one: 'the cat sat'") as raised:
        tag(["the cat sat", "a dog"], model=model)
    assert "Tagger(model)(sentences)" in raised.value.hint
    for words in (["10 000", "cats"], ["cho thuê", "nhà cửa"], ["New York City"]):  # a word may hold spaces
        assert [word for word, _ in tag(words, model=model)] == words
    assert [word for word, _ in tag(iter(["The", "cat"]), model=model)] == ["The", "cat"]


@pytest.mark.parametrize("batch_tokens", [1, 60, 8192])
def test_neither_batch_nor_neighbours_change_a_label(model, batch_tokens):
    together = list(Tagger(model, batch_tokens=batch_tokens)(SENTENCES))
    assert [each.line for each in together] == list(range(1, len(SENTENCES) + 1))
    for sentence, found in zip(SENTENCES, together, strict=True):
        [alone] = Tagger(model)([sentence])
        assert found.to_dict()["words"] == alone.to_dict()["words"]


def test_every_word_of_a_long_sentence_is_labelled_once(model, encoder_folder):
    words = [f"word{number}" for number in range(700)]
    for folder in (model, encoder_folder("tokens", LABELS, positions="learned", max_positions=16)):
        assert [word for word, _ in tag(words, model=folder)] == words


def test_sentences_without_end_are_tagged_as_they_come(model):
    came = Tagger(model).in_chunks(["a film"] for _ in iter(lambda: 7, None))
    assert [next(came).line for _ in range(3)] == [1, 2, 3]


# CoNLL-U


def filled(model, text, size=3):
    lines = text.split("\n")[:-1]
    chunks = [lines[start : start + size] for start in range(0, len(lines), size)]
    return "".join(map(str, Tagger(model).conllu(chunks, "pipe")))


@pytest.mark.parametrize("size", [1, 2, 100])
def test_one_column_is_filled_and_every_other_byte_stays(model, size):
    found = filled(model, CONLLU, size)
    before, after = CONLLU.split("\n"), found.split("\n")
    assert len(before) == len(after)
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        if number in (1, 3, 4, 7):
            old_cells, new_cells = old.split("\t"), new.split("\t")
            assert new_cells[3] in LABELS
            assert [*old_cells[:3], *old_cells[4:]] == [*new_cells[:3], *new_cells[4:]]
        else:
            assert old == new


def test_the_column_is_the_one_that_the_model_was_trained_for(encoder_folder):
    model = encoder_folder("tokens", LABELS, others={"words.json": b'{"column": "xpos"}'})
    lines = filled(model, CONLLU).split("\n")
    assert lines[1].split("\t")[3] == "_"
    assert lines[1].split("\t")[4] in LABELS
    with pytest.raises(FolderError, match="no column 'pos'"):
        Tagger(encoder_folder("tokens", LABELS, others={"words.json": b'{"column": "pos"}'}))


def test_sentences_before_a_broken_line_come_out_first(model):
    broken = CONLLU.split("\n")[:-1]
    broken[7] = broken[7].replace("1\t", "7\t", 1)
    came = Tagger(model).conllu([broken], "pipe")
    assert isinstance(next(came), Sentence)
    with pytest.raises(DataError, match="pipe:8: word 7 where word 1 is expected"):
        next(came)


def test_a_sentence_that_is_not_ended_is_refused(model):
    with pytest.raises(DataError, match="not ended by an empty line"):
        filled(model, CONLLU.removesuffix("\n"))


def test_files_are_known_by_their_names(model, tmp_path):
    (tmp_path / "a.conllu").write_text(CONLLU)
    (tmp_path / "a.txt").write_text("the cat.\n\n")
    found = tag_file(tmp_path / "a.conllu", model=model)
    assert [[word for word, _ in each] for each in found] == [["the", "cat", "'s"], ["good film"]]
    (tmp_path / "b").write_text(CONLLU)
    assert tag_file(tmp_path / "b", model=model, conllu=True) == found
    assert [len(each) for each in tag_file(tmp_path / "a.txt", model=model)] == [3, 0]
    assert [len(each) for each in tag_file(tmp_path / "a.txt", model=model, words=True)] == [2, 0]


# What it refuses, what it prints


def test_a_head_that_nobody_trained_is_silent_unless_it_is_allowed_to_speak(encoder_folder):
    fresh = encoder_folder("tokens", LABELS, fresh_head=True)
    with pytest.raises(FolderError, match="the head of this model is untrained"):
        tag("a film", model=fresh)
    assert len(tag("a film", model=fresh, allow_fresh_head=True)) == 2


def test_a_model_for_something_else_says_what_it_is_for(encoder_folder, untrained):
    with pytest.raises(FolderError, match="its head is 'classification'") as caught:
        tag("a film", model=encoder_folder("classification", LABELS))
    assert "regard classify" in caught.value.hint
    with pytest.raises(FolderError, match="not a model that labels words"):
        tag("a film", model=untrained)


def test_a_folder_with_too_few_labels_is_refused(encoder_folder):
    broken = encoder_folder("tokens", LABELS, config_labels=LABELS[1:])
    with pytest.raises(FolderError, match="3 labels for 4 classes"):
        tag("a", model=broken)


def test_what_is_printed(model):
    one, empty = Tagger(model)(["the cat", ""])
    assert output_lines(one) == "".join(f"{word.form}\t{word.label}\n" for word in one.words) + "\n"
    assert output_lines(empty) == "\n"
    record = json.loads(output_lines(one, as_json=True))
    assert [word["word"] for word in record["words"]] == ["the", "cat"]
    assert json.loads(output_lines(empty, as_json=True)) == {"line": 2, "words": []}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I love it, really.", ["I", "love", "it", ",", "really", "."]),
        ('"Well..." (he said)!!', ['"', "Well", "...", '"', "(", "he", "said", ")", "!!"]),
        ("the U.S. e.g. Mr. 3.14", ["the", "U.S.", "e.g.", "Mr", ".", "3.14"]),
        ("$5 don't well-known", ["$", "5", "don't", "well-known"]),
        ("a  b\tc\n", ["a", "b", "c"]),
        ("¿Qué? 日本。", ["¿", "Qué", "?", "日本", "。"]),
        ("", []),
    ],
)
def test_words_of_a_text(text, words):
    assert split_words(text) == words
