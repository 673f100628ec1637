"""The estimate of tokens is within 20 % of a trained tokeniser, with and without spaces."""

import os
import random
from pathlib import Path

import pytest

from regard.data.files import locate, read_lines
from regard.data.token_estimate import estimated_tokens
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer


def true_tokens(texts, vocab_size):
    tokenizer = train_tokenizer(texts, "bpe", TokenizerSettings(vocab_size=vocab_size))
    return sum(map(len, tokenizer.encode_batch(texts)))


def made(count=2000):
    """Sentences of artificial words, a few frequent and many rare, as in a language."""
    draw = random.Random(0)
    syllables = [a + b for a in "bdfgklmnprst" for b in ("a", "e", "i", "o", "u", "an", "er", "isch")]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(3000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    return [" ".join(draw.choices(words, weights, k=draw.randint(4, 16))) + "." for _ in range(count)]


@pytest.mark.parametrize("vocab_size", [1000, 2500])
def test_where_words_are_between_spaces(vocab_size):
    texts = made()
    true = true_tokens(texts, vocab_size)
    assert estimated_tokens(texts, vocab_size, spaces=True) == pytest.approx(true, rel=0.2)


def test_where_they_do_not():
    texts = [text.replace(" ", "") for text in made()]
    assert estimated_tokens(texts, 1000, spaces=False) == pytest.approx(true_tokens(texts, 1000), rel=0.2)


def test_a_larger_vocabulary_gives_fewer_tokens_and_more_text_gives_more():
    for spaces in (True, False):
        texts = [text if spaces else text.replace(" ", "") for text in made()]
        few, more = (estimated_tokens(texts, size, spaces=spaces) for size in (8000, 500))
        assert few < more
        assert estimated_tokens(texts[:500], 2000, spaces=spaces) < estimated_tokens(
            texts, 2000, spaces=spaces
        )


def test_no_text_has_no_tokens():
    assert estimated_tokens([], 4000, spaces=True) == 0
    assert estimated_tokens([""], 4000, spaces=False) < 50


@pytest.mark.skipif("REGARD_DATA" not in os.environ, reason="REGARD_DATA names no data sets")
@pytest.mark.parametrize("file", ["newstest_en_de:newstest2013.de", "multi30k:train.fr.gz"])
def test_on_published_corpora(file):
    texts = list(read_lines(locate(file, Path())))
    assert estimated_tokens(texts, 4000, spaces=True) == pytest.approx(true_tokens(texts, 4000), rel=0.2)
