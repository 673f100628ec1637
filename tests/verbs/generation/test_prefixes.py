"""Languages that a prefix names, and those that a text only spells."""

import pytest

from regard.data.tokenizer_file import UNMATCHED
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import ConfigError
from regard.verbs.generation.prefixes import (
    known_tags,
    prefix_of,
    reads_languages,
    spelled_language,
    tags_of_sources,
    unknown_tag,
)
from tests.weights.test_marian_languages import of_languages


@pytest.mark.parametrize("mark", [UNMATCHED, " "], ids=["mark", "older"])
def test_a_prefix_may_be_a_language_that_no_text_matches(mark):
    tokenizer = of_languages(mark, "Unigram")
    assert prefix_of(">>fra<<", tokenizer).ids == (4,)
    assert prefix_of(">>zh_hans<< Hi", tokenizer).encoded(["."], tokenizer) == [[5, 2, 3]]
    assert reads_languages(tokenizer)


def test_a_tokeniser_of_regard_reads_tags_in_texts():
    tokenizer = train_tokenizer([">>fra<< a b"] * 3, "words", TokenizerSettings(kind="words"))
    assert not reads_languages(tokenizer)


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        (">>fra<< Hi.", ">>fra<<"),
        (" >>zh_hans<<Hi", ">>zh_hans<<"),
        ("Hi >>fra<<", ""),
        (">> a <<", ""),
        ("", ""),
    ],
)
def test_the_language_that_a_text_begins_with(text, tag):
    assert spelled_language(text) == tag


@pytest.mark.parametrize("odd", ["\u00a0", "\u202f", "\u2009", "\u00ad", "\u200b", "\ufeff"])
def test_spaces_that_a_tokeniser_of_ours_does_not_know_are_read_as_in_its_training_text(odd):
    stands_for = "" if odd in "\u00ad\u200b\ufeff" else " "
    texts = ["a b ab ba"] * 5
    tokenizer = train_tokenizer(texts, "characters", TokenizerSettings(kind="characters"))
    prefix = prefix_of("", tokenizer)
    assert prefix.encoded([f"a{odd}b"], tokenizer) == prefix.encoded([f"a{stands_for}b"], tokenizer)
    spans = prefix.spans(f"ba{odd}b", tokenizer)
    assert (0, 1) in spans
    assert (3, 4) in spans
    knows = train_tokenizer([*texts, f"a{odd}b"] * 5, "characters", TokenizerSettings(kind="characters"))
    assert prefix_of("", knows).encoded([f"a{odd}b"], knows) == [knows.encode(f"a{odd}b")]


def test_a_prefix_with_a_nul_is_refused():
    tokenizer = train_tokenizer(["a b"] * 3, "words", TokenizerSettings(kind="words"))
    with pytest.raises(ConfigError, match="NUL"):
        prefix_of("a\0", tokenizer)


def test_a_tag_that_is_none_of_the_models_is_named():
    tokenizer = train_tokenizer(["<2de> a", "<2fr> a"] * 3, "words", TokenizerSettings(kind="words"))
    assert known_tags(tokenizer) == ["<2de>", "<2fr>"]
    assert unknown_tag("<2dee> a", known_tags(tokenizer)) == "<2dee>"
    assert unknown_tag("<2de> a", known_tags(tokenizer)) == ""
    assert unknown_tag("<2xx> a", []) == ""


@pytest.mark.parametrize("kind", ["bpe", "bytebpe", "unigram", "words", "characters", "bytes", "wordpunct"])
def test_tags_that_are_several_tokens_are_those_of_the_training_lines(kind):
    tags = [">>fr<<", "<2de>", "__zho_Hans__", "<2xx-y>"]
    lines = [f"{tag} {text}" for tag in tags for text in ("I like tea.", "A")]
    others = ["I like tea.", "<2 is it", "__init__ is a name", ">> a <<", "_", "<b> a", "A <2no>"]
    tokenizer = train_tokenizer([*lines, *others] * 3, kind, TokenizerSettings(kind=kind, vocab_size=300))
    sources = tokenizer.encode_batch([*lines, *others])
    if kind != "wordpunct":  # which decodes with spaces between
        assert tags_of_sources(sources, tokenizer) == sorted(tags)
    assert tags_of_sources(tokenizer.encode_batch(others), tokenizer) == []
    found = known_tags(tokenizer, tags)
    assert unknown_tag("<2dee> a", found) == "<2dee>"
    assert unknown_tag("<2de> a", found) == ""
