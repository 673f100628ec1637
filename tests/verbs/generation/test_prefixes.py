"""Languages that a prefix names, and those that a text only spells."""

import pytest

from regard.data.tokenizer_file import UNMATCHED
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.verbs.generation.prefixes import prefix_of, reads_languages, spelled_language
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
