"""Words or pieces of words: a choice from the texts, which the proposed recipe and its run follow."""

import dataclasses
import random

import pytest

import regard.verbs.proposals.known_words as known_words_module
from regard.data.character_counts import CharacterCounts
from regard.data.tokenizer_training import train_tokenizer
from regard.verbs.classify import Classifier, classify
from regard.verbs.new import new
from regard.verbs.proposals.known_words import LEAST_KNOWN, MOST_TOKENS, KnownWords, known_words
from regard.verbs.shared.settings import load_recipe
from regard.verbs.train import train

GOOD, BAD = ("good", "fine", "great", "lovely"), ("bad", "poor", "awful", "dull")
NOUNS = ("film", "book", "song", "play", "cast", "plot", "tune", "tale")
FEW = ["training.max_steps=4", "training.validate_every=4", "model.d_model=16", "model.d_ff=16"]


def spaced(count=200):
    draw = random.Random(2).choice
    return [f"The {draw(NOUNS)} is {draw(GOOD + BAD)}, and the {draw(NOUNS)}?" for _ in range(count)]


def unlike(count=200):
    """Texts whose words are all different, as of a language with many forms."""
    letters = random.Random(3)
    return [" ".join("".join(letters.choices("aeioklmnst", k=9)) for _ in range(6)) for _ in range(count)]


CHINESE = ["这部电影很好看", "我不喜欢这本书", "那首歌真难听", "演员们演得不错"]
THAI = ["หนังเรื่องนี้ดีมาก", "ฉันไม่ชอบหนังสือเล่มนี้", "เพลงนั้นไพเราะ", "นักแสดงเล่นไม่ดี"]
JAPANESE = ["この映画はとても良い", "その本は好きではない", "あの歌はひどい", "俳優は上手だった"]


def test_words_are_chosen_if_those_of_held_out_texts_are_known():
    found = known_words(spaced(), spaced(20))
    assert found.suffice
    assert found.share == 1
    assert found.summary.startswith("tokens are words and punctuation: 100% of those")


def test_pieces_are_chosen_if_held_out_words_are_new():
    found = known_words(unlike(), [*spaced(20), *unlike(20)])
    assert not found.suffice
    assert found.share is not None
    assert found.share < LEAST_KNOWN
    assert "pieces of words" in found.summary


@pytest.mark.parametrize("texts", [CHINESE, THAI, JAPANESE], ids=["Chinese", "Thai", "Japanese"])
def test_pieces_are_chosen_for_texts_without_spaces(texts):
    found = known_words(texts * 50, texts)
    assert found.share is None
    assert not found.suffice
    assert "no spaces" in found.summary


def test_a_word_that_occurs_once_is_not_known_and_capitals_do_not_count():
    assert known_words(["a a b b c", "d"], ["A b c d"]).share == 0.5
    assert known_words(["a a b b c", "d"], ["A B, c d e f g h"]).share == 2 / 9


def many_words(words):
    """Texts of `words` different words, each twice."""
    names = [f"w{number}" for number in range(words)]
    return [" ".join(names[start : start + 10]) for start in range(0, words, 10)] * 2


def test_the_share_is_of_a_vocabulary_that_the_recipe_has(tmp_path):
    found = known_words(many_words(12_000), many_words(12_000)[:50])
    assert (found.share, found.vocab_size) == (1, 12_004)
    rows = [f"{text} {number}\t{number % 2}\n" for number, text in enumerate(many_words(12_000) * 3)]
    (tmp_path / "labels.tsv").write_text("".join(["text\tlabel\n", *rows]), "utf-8")
    written = new(tmp_path / "labels.tsv", out=tmp_path / "labels.toml")
    settings = load_recipe(written.recipe).recipe.tokenizer
    assert settings.kind == "wordpunct"
    train_file = next(tmp_path.rglob("train.tsv"))
    texts = [line.split("\t")[0] for line in train_file.read_text("utf-8").splitlines()[1:]]
    kept = train_tokenizer(texts, settings.kind, settings).vocab_size
    unbounded = dataclasses.replace(settings, vocab_size=1_000_000)
    assert kept == train_tokenizer(texts, settings.kind, unbounded).vocab_size > 10_000


def test_words_beyond_the_largest_vocabulary_are_not_counted_as_known():
    found = known_words(many_words(2 * MOST_TOKENS), many_words(2 * MOST_TOKENS)[: MOST_TOKENS // 5])
    assert found.vocab_size == MOST_TOKENS
    assert found.share == pytest.approx(0.5, abs=0.01)
    assert f"{MOST_TOKENS:,} most frequent" in found.summary


def test_the_sample_is_from_the_whole_of_a_sorted_file():
    train = ["a b c d"] * 22_000 + ["e f g h"] * 22_000
    assert known_words(train, ["a b c d e f g h"]).share == 1
    assert known_words(["a b"], ["a b"] * 22_000 + ["c d"] * 22_000).share == 0
    halves = known_words(["a b"] * 2, ["a b"] * 22_000 + ["c d"] * 22_000).share
    assert halves == pytest.approx(0.5, abs=0.02)


def test_of_long_texts_fewer_are_read(monkeypatch):
    read = []
    monkeypatch.setattr(known_words_module, "SAMPLED_CHARACTERS", 10_000)
    monkeypatch.setattr(CharacterCounts, "add", lambda _counts, texts: read.extend(texts))
    known_words(["word " * 100] * 400, ["word"])
    assert sum(map(len, read)) == 10_000


def test_a_share_that_does_not_suffice_is_not_printed_as_one_that_does():
    assert "only 79%" in KnownWords(share=0.797).summary


@pytest.mark.parametrize(("texts", "kind"), [(spaced, "wordpunct"), (unlike, "bpe")])
def test_the_recipe_and_its_model_have_the_chosen_tokens(tmp_path, texts, kind):
    rows = [f"{text}\t{number % 2}" for number, text in enumerate(dict.fromkeys(texts()))]
    (tmp_path / "labels.tsv").write_text("".join(f"{row}\n" for row in ["text\tlabel", *rows]), "utf-8")
    written = new(tmp_path / "labels.tsv", out=tmp_path / "labels.toml")
    settings = load_recipe(written.recipe).recipe.tokenizer
    assert settings.kind == kind
    assert any(note.startswith("tokens are ") for note in written.notes)
    assert (settings.min_count, settings.dropout) == ((2, 0.0) if kind == "wordpunct" else (None, 0.1))
    train(written.recipe, out=tmp_path / "run", overrides=FEW, threads=1)
    tokenizer = Classifier(tmp_path / "run").tokenizer
    assert tokenizer.rare_words_unknown == (kind == "wordpunct")


@pytest.mark.parametrize(
    ("kind", "min_count", "warns"),
    [("words", 2, False), ("wordpunct", 2, False), ("words", 1, True), ("wordpunct", 1, True)],
)
def test_an_unknown_word_is_named_unless_training_had_unknown_words(tmp_path, capsys, kind, min_count, warns):
    rows = [f"{text}\t{number % 2}\n" for number, text in enumerate(dict.fromkeys(spaced()))]
    (tmp_path / "labels.tsv").write_text("".join(["text\tlabel\n", *rows]), "utf-8")
    recipe = new(tmp_path / "labels.tsv", out=tmp_path / "labels.toml").recipe
    recipe.write_text(
        recipe.read_text()
        .replace('"wordpunct"', f'"{kind}"')
        .replace("min_count = 2", f"min_count = {min_count}")
    )
    run = train(recipe, out=tmp_path / "run", overrides=FEW, threads=1)
    capsys.readouterr()
    known = spaced()[0]
    classify(f"{known} {known} unheard", model=run.model)
    assert ("that the model does not know" in capsys.readouterr().err) == warns


def test_a_classifier_starts_from_a_masked_language_model_of_words(tmp_path):
    texts = list(dict.fromkeys(spaced()))
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in texts), "utf-8")
    rows = [f"{text}\t{number % 2}\n" for number, text in enumerate(texts)]
    (tmp_path / "labels.tsv").write_text("".join(["text\tlabel\n", *rows]), "utf-8")
    (tmp_path / "masked.toml").write_text(MASKED, "utf-8")
    masked = train(tmp_path / "masked.toml", out=tmp_path / "masked", threads=1)
    written = new(tmp_path / "labels.tsv", out=tmp_path / "labels.toml")
    run = train(written.recipe, out=tmp_path / "run", init=masked.model, overrides=FEW[:2], threads=1)
    tokenizers = [(model / "tokenizer.json").read_bytes() for model in (masked.model, run.model)]
    assert tokenizers[0] == tokenizers[1]
    assert Classifier(run.model).tokenizer.rare_words_unknown


MASKED = """
name = "masked"

[task]
kind = "masked_language_model"

[data.train]
file = "texts.txt"

[data.valid]
file = "texts.txt"

[tokenizer]
kind = "wordpunct"
min_count = 2
lowercase = true

[model]
preset = "modern"
num_layers = 1
d_model = 16
d_ff = 16
input_convolution = 3

[training]
max_steps = 2
validate_every = 2
"""
