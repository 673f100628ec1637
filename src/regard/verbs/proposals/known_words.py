"""Whether the words of texts suffice as tokens of a classifier, or it needs pieces of words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.character_counts import CharacterCounts
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer

LEAST_KNOWN = 0.8  # of the tokens of held-out texts; the three measured corpora have 0.86 to 0.91
MIN_COUNT = 2  # occurrences of a known word in the training texts, as in the recipe with words
SAMPLED_TEXTS = 20_000  # texts of each part that are read
SAMPLED_CHARACTERS = 4_000_000  # of each part: of longer texts fewer are read
MOST_TOKENS = 30_000  # of a vocabulary of words: 3.8 million weights at the recipe's width, 128
ENCODED = 1000  # texts that are encoded at once


@dataclass(frozen=True, kw_only=True)
class KnownWords:
    """The share of held-out words and punctuation that a vocabulary of the training texts has.

    Attributes:
        share: from 0 to 1; None if the texts have no spaces between words.
        vocab_size: tokens of that vocabulary, at most MOST_TOKENS; the recipe must have room for as many.
    """

    share: float | None
    vocab_size: int = 0

    @property
    def suffice(self) -> bool:
        """True if words and punctuation should be the tokens."""
        return self.share is not None and self.share >= LEAST_KNOWN

    @property
    def summary(self) -> str:
        """The choice of the tokens and its reason, in a line."""
        if self.share is None:
            return "tokens are pieces of words: the texts have no spaces between words"
        percent = math.floor(100 * self.share)  # 79.7 is not the 80 that would have sufficed
        known = f"{percent}% of those in the validation texts occur twice or more in the training texts"
        if self.vocab_size >= MOST_TOKENS:
            known += f" and are among the {MOST_TOKENS:,} most frequent"
        if self.suffice:
            return f"tokens are words and punctuation: {known}"
        return f"tokens are pieces of words: of whole words and punctuation, only {known}"


def known_words(train: Sequence[str], valid: Sequence[str]) -> KnownWords:
    """Counts the words and punctuation of `valid` that `train` has twice or more, in lower case.

    Of many or long texts a sample is read. Its vocabulary has MOST_TOKENS at most, the most frequent ones.
    """
    train, valid = _sample(train), _sample(valid)
    characters = CharacterCounts()
    characters.add(train)
    if not characters.script.spaces:
        return KnownWords(share=None)
    settings = TokenizerSettings(
        kind="wordpunct", min_count=MIN_COUNT, lowercase=True, vocab_size=MOST_TOKENS
    )
    tokenizer = train_tokenizer(train, settings.kind, settings)
    count = unknown = 0
    for start in range(0, len(valid), ENCODED):
        for ids in tokenizer.encode_batch(valid[start : start + ENCODED]):
            count += len(ids)
            unknown += ids.count(tokenizer.unk_id)
    return KnownWords(share=1 - unknown / max(count, 1), vocab_size=tokenizer.vocab_size)


def _sample(texts: Sequence[str]) -> Sequence[str]:
    """Texts from the whole file, which may be sorted; about SAMPLED_CHARACTERS at most, always the same."""
    total = sum(map(len, texts))
    count = min(len(texts), SAMPLED_TEXTS, max(1, len(texts) * SAMPLED_CHARACTERS // max(total, 1)))
    if count == len(texts):
        return texts
    chosen = np.random.default_rng(1).choice(len(texts), count, replace=False)  # a stride may meet a pattern
    return [texts[number] for number in sorted(map(int, chosen))]
