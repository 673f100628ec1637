"""The ids of words that were seen, one after another, are those that the library gives."""

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from regard.data import cached_words
from regard.data.cached_words import KNOWN, CachedWords
from regard.data.tokenizer import MANY, Tokenizer
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer

TEXTS = ["Größe, a dog's 12.5 kg – “so” well-known <s> ÉTÉ", "the cat sat on the mat", "l’été «ça» 2024: x=1"]
CHARACTERS = "ab ABzßÉéœŒſıİ09'’-.,<s>&  ×÷“„–…«»¡¿€\t\n\u00a0\u0301Ωжλ你½²\x1c"
FORMS = {
    "bpe": {"kind": "bpe"},
    "digits": {"kind": "bpe", "split_digits": True},
    "lowercase": {"kind": "bpe", "lowercase": True},
    "as it is": {"kind": "bpe", "normalization": "none"},
    "bytebpe": {"kind": "bytebpe"},
    "unigram": {"kind": "unigram"},
}


def trained(kind, **settings):
    return train_tokenizer(TEXTS * 4, kind, TokenizerSettings(kind=kind, vocab_size=300, **settings))


TRAINED = {name: trained(**settings) for name, settings in FORMS.items()}


@pytest.mark.parametrize("name", FORMS)
@given(texts=st.lists(st.one_of(st.text(CHARACTERS, max_size=20), st.sampled_from([*TEXTS, ""])), max_size=5))
def test_texts_have_the_ids_that_the_library_gives(name, texts):
    backend = TRAINED[name]._backend
    words = CachedWords.of(backend)
    for text in texts * 2:
        ids = backend.encode(text, add_special_tokens=False).ids
        assert words.encode(text) == (ids if KNOWN.fullmatch(text) else None)


def test_every_known_character_is_read_as_by_the_library():
    every = [each for each in map(chr, range(0x3000)) if KNOWN.fullmatch(each)]
    assert len(every) > 250
    for name, tokenizer in TRAINED.items():
        words = CachedWords.of(tokenizer._backend)
        for each in every:
            for text in (each, f"a{each}b", f" {each}{each} 1{each}2"):
                expected = tokenizer._backend.encode(text, add_special_tokens=False).ids
                assert words.encode(text) == expected, (name, text)


@pytest.mark.parametrize("kind", ["words", "wordpunct", "wordpiece", "characters", "bytes"])
def test_a_tokeniser_that_divides_otherwise_has_none(kind):
    assert CachedWords.of(trained(kind=kind)._backend) is None


def test_sampled_pieces_added_tokens_and_other_forms_have_none():
    content = TRAINED["bpe"].to_bytes().decode()
    for old, new in (
        ('"dropout": null', '"dropout": 0.1'),
        ('"special": true', '"special": false'),
        ('"prepend": " "', '"prepend": "_"'),
        ('"type": "NFC"', '"type": "NFKC"'),
        ('"invert": false', '"invert": true'),
    ):
        assert old in content
        assert CachedWords.of(tokenizers.Tokenizer.from_str(content.replace(old, new, 1))) is None, new


def test_a_tokeniser_gives_the_same_ids_before_and_after_many_texts(monkeypatch):
    monkeypatch.setattr(cached_words, "MOST_WORDS", 7)
    tokenizer = Tokenizer.from_bytes(TRAINED["bpe"].to_bytes())
    texts = [*TEXTS, "", "Ω mixed with known words"]
    before = [tokenizer.encode_batch(texts) for _ in range(3)]
    tokenizer.encode_batch(["a"] * MANY)
    assert [tokenizer.encode_batch(texts) for _ in range(3)] == before
    assert tokenizer._words != (None,)
