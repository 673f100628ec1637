"""A part of a tokenised corpus of pairs is read as it was written, and nothing else is taken for one."""

import numpy as np
import pytest

from regard.data.pair_part import PairPart, PairWriter, tokenised_pairs
from regard.data.shards import segmenters
from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer

PAIRS = [("a b", "b"), ("a " * 9, "a"), ("b", "a a b")]


@pytest.fixture(scope="module")
def tokenizers():
    tokenizer = train_tokenizer(["a b a b"], "words", TokenizerSettings(kind="words"))
    return TokenizerPair(tokenizer, tokenizer)


def test_a_part_has_the_pairs_that_are_short_enough_with_their_special_tokens(tokenizers):
    ids = tokenised_pairs(segmenters(tokenizers, 0.0, 1, 0), PAIRS, max_tokens=5)
    assert ids[1] == "too_many_tokens"
    writer = PairWriter(tokenizers, 1)
    writer.add([ids[0], ids[2]], [1, 3])
    part = PairPart.of(writer.to_bytes(), "part")
    encode, tokenizer = tokenizers.source.encode, tokenizers.source
    found = part.copy(7)
    assert part.lines.tolist() == [1, 3]
    assert [each.tolist() for each in found.sources(np.arange(2))] == [
        [*encode("a b"), tokenizer.eos_id],
        [*encode("b"), tokenizer.eos_id],
    ]
    assert found.targets(np.array([1]))[0].tolist() == [
        tokenizer.bos_id,
        *encode("a a b"),
        tokenizer.eos_id,
    ]
    tokens = {"source_tokens": 5, "longest_source": 3, "target_tokens": 8, "longest_target": 5}
    assert writer.counts() == {"pairs": 2, **tokens}
