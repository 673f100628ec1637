"""An unknown token of a translation becomes the source word of the greatest attention."""

import pytest

from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import ConfigError
from regard.inspection.alignment import align_by_best_layer
from regard.verbs.generation.copied_words import CopiedWords, _word
from regard.verbs.translate import Translator, translate

UNKNOWN = "<unk>"
LINES = ["1 2 3", "4 x-ray 5", "", "Straßenbahn", "7 7"]


def test_no_translation_has_an_unknown_token_and_others_are_as_without(untrained):
    settings = {"model": untrained, "sample": True, "split": "off"}
    replaced = 0
    for seed in range(6):
        plain = translate(LINES, seed=seed, **settings)
        found = translate(LINES, seed=seed, replace_unk=True, **settings)
        for line, one, other in zip(LINES, plain, found, strict=True):
            assert (one == other) == (UNKNOWN not in one)
            pairs = list(zip(one.split(), other.split(), strict=True))
            assert all(copy in line for word, copy in pairs if word == UNKNOWN)
            assert all(word == copy for word, copy in pairs if word != UNKNOWN)
            replaced += sum(word == UNKNOWN for word, _ in pairs)
    assert replaced > 5


def test_the_word_is_that_of_the_greatest_attention(untrained):
    translator = Translator(untrained)
    tokenizers, piece = translator.loaded.tokenizers, " 1 x-ray 3 "
    copied = CopiedWords(translator.model, tokenizers, translator._sources)
    target = tokenizers.target
    ids = [*target.encode("5 6"), target.unk_id, target.unk_id, *target.encode("7")]
    text, moved = copied.text(piece, ids, target.decode(ids))
    weights = align_by_best_layer(
        translator.model,
        tokenizers.source.encode("1 x-ray 3"),
        ids,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
    ).weights
    copied_words = [["1", "x-ray", "3"][weights[row].argmax()] for row in (2, 3)]
    assert text == " ".join(["5", "6", *copied_words, "7"])
    assert moved(len("5 6 <unk> <unk> 7")) == len(text)


@pytest.mark.parametrize(
    ("span", "word"),
    [((0, 3), "Der"), ((3, 5), "Hund"), ((5, 6), "Hund"), ((8, 9), ","), ((10, 15), "x-ray"), ((10, 10), "")],
)
def test_a_token_stands_for_its_whole_word(span, word):
    assert _word("Der Hund, x-ray", span) == word


def test_what_cannot_be_copied_is_refused(untrained):
    translator = Translator(untrained)
    tokenizer = train_tokenizer(["a"], "bytebpe", TokenizerSettings(kind="bytebpe", vocab_size=300))
    with pytest.raises(ConfigError, match="writes any word by its letters"):
        CopiedWords(translator.model, TokenizerPair(tokenizer, tokenizer), translator._sources)
