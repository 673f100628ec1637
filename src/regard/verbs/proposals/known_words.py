"""Tokens of a classifier: whole words, if its texts repeat most of their words; else pieces of words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.character_counts import CharacterCounts
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer

LEAST_KNOWN = 0.8  # of the words of validation texts; the three measured corpora have 0.86 to 0.91
MIN_COUNT = 2  # occurrences of a known word in the training texts, as in the recipe with words
SAMPLED_TEXTS = 20_000  # texts of each part that are read
SAMPLED_CHARACTERS = 4_000_000  # of each part: of longer texts fewer are read
MOST_TOKENS = 30_000  # of a vocabulary of words: 3.8 million weights at the recipe's width, 128
BATCH_TEXTS = 1000  # texts that are encoded at once


@dataclass(frozen=True, kw_only=True)
class KnownWords:
    """How many words and punctuation marks of the validation texts are in a vocabulary of the training texts.

    Attributes:
        share: from 0 to 1; None if the texts have no spaces between words.
        vocab_size: the size of that vocabulary, at most MOST_TOKENS; the recipe must allow as many tokens.
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
        percent = math.floor(100 * self.share)  # 79.7 % do not suffice, so they are not shown as 80 %
        known = f"{percent}% of those in the validation texts occur twice or more in the training texts"
        if self.vocab_size >= MOST_TOKENS:
            known += f" and are among the {MOST_TOKENS:,} most frequent"
        if self.suffice:
            return f"tokens are words and punctuation: {known}"
        return f"tokens are pieces of words: of whole words and punctuation, only {known}"


def known_words(train: Sequence[str], valid: Sequence[str]) -> KnownWords:
    """The share of words in `valid` that occur at least MIN_COUNT times in `train`, in lower case.

    Of many or long texts a sample is read. Of many words only the MOST_TOKENS most frequent count.
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
    total = unknown = 0
    for start in range(0, len(valid), BATCH_TEXTS):
        for ids in tokenizer.encode_batch(valid[start : start + BATCH_TEXTS]):
            total += len(ids)
            unknown += ids.count(tokenizer.unk_id)
    return KnownWords(share=1 - unknown / max(total, 1), vocab_size=tokenizer.vocab_size)


def _sample(texts: Sequence[str]) -> Sequence[str]:
    """Texts from all parts of the file, always the same, with about SAMPLED_CHARACTERS at most."""
    characters = max(1, sum(map(len, texts)))
    count = min(len(texts), SAMPLED_TEXTS, max(1, len(texts) * SAMPLED_CHARACTERS // characters))
    if count == len(texts):
        return texts
    # at random: the file may be sorted, or have a pattern that every n-th text would meet
    chosen = np.random.default_rng(1).choice(len(texts), count, replace=False)
    return [texts[number] for number in sorted(map(int, chosen))]
