"""Whether the words of texts suffice as tokens of a classifier, or it needs pieces of words."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.character_counts import CharacterCounts
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer

LEAST_KNOWN = 0.8  # of the tokens of held-out texts; the three measured corpora have 0.86 to 0.91
MIN_COUNT = 2  # occurrences of a known word in the training texts, as in the recipe with words
SAMPLED_TEXTS = 20_000  # texts of each part that are read
MOST_WORDS = 1_000_000  # more than so many texts have


@dataclass(frozen=True, kw_only=True)
class KnownWords:
    """How many words and signs of held-out texts are known from training texts.

    Attributes:
        share: from 0 to 1; None if the texts have no spaces between words.
    """

    share: float | None

    @property
    def suffice(self) -> bool:
        """True if words and signs should be the tokens."""
        return self.share is not None and self.share >= LEAST_KNOWN

    @property
    def summary(self) -> str:
        """The choice of the tokens and its reason, in a line."""
        if self.share is None:
            return "tokens are pieces of words: the texts have no spaces between words"
        known = f"{self.share:.0%} of those in the validation texts occur twice or more in the training texts"
        if self.suffice:
            return f"tokens are words and signs: {known}"
        return f"tokens are pieces of words: of whole words and signs, only {known}"


def known_words(train: Sequence[str], valid: Sequence[str]) -> KnownWords:
    """Counts the words and signs of `valid` that occur in `train` twice or more, in lower case."""
    train, valid = train[:SAMPLED_TEXTS], valid[:SAMPLED_TEXTS]
    characters = CharacterCounts()
    characters.add(train)
    if not characters.script.spaces:
        return KnownWords(share=None)
    settings = TokenizerSettings(kind="wordpunct", min_count=MIN_COUNT, lowercase=True, vocab_size=MOST_WORDS)
    tokenizer = train_tokenizer(train, settings.kind, settings)
    ids = list(itertools.chain.from_iterable(tokenizer.encode_batch(valid)))
    return KnownWords(share=1 - ids.count(tokenizer.unk_id) / max(len(ids), 1))
