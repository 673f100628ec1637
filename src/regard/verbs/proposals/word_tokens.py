"""The choice between whole words and pieces of words as the tokens of a classifier, from its texts."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from regard.data.character_counts import CharacterCounts
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.verbs.proposals.published import RecipeChange

MOST_UNKNOWN = 0.2  # of the tokens of texts that were held out; three measured corpora have 0.08 to 0.15
MIN_COUNT = 2  # occurrences of a word in the training texts; rarer ones are unknown
MOST_WORDS = 30_000  # in a vocabulary
SAMPLED_TEXTS = 20_000  # texts of each part that are read for the choice


@dataclass(frozen=True, kw_only=True)
class WordTokens:
    """Whether words are the tokens, and why in a line.

    Attributes:
        unknown: the share of unknown tokens in the texts that were held out; None if no spaces are between
            the words.
    """

    unknown: float | None

    @property
    def chosen(self) -> bool:
        """True if tokens are words."""
        return self.unknown is not None and self.unknown <= MOST_UNKNOWN

    @property
    def reason(self) -> str:
        """The choice and its reason."""
        if self.unknown is None:
            return "tokens are pieces of words, since no spaces are between the words"
        known = f"{1 - self.unknown:.0%} of those in the validation texts occur twice or more in training"
        if self.chosen:
            return f"tokens are words and signs: {known}"
        return f"tokens are pieces of words: of words and signs, only {known}"

    def changes(self) -> dict[str, RecipeChange]:
        """The changes of a recipe whose tokens are pieces of BPE with dropout."""
        if not self.chosen:
            return {}
        return {
            "tokenizer.kind": RecipeChange(value="wordpunct", comment=KIND_COMMENT),
            "tokenizer.vocab_size": RecipeChange(value=MOST_WORDS),
            "tokenizer.dropout": RecipeChange(value=None),
            "tokenizer.copies": RecipeChange(value=None),
            "tokenizer.min_count": RecipeChange(value=MIN_COUNT, comment=MIN_COUNT_COMMENT),
            "tokenizer.lowercase": RecipeChange(value=True, comment="capitals make no other word"),
        }


KIND_COMMENT = "words and single signs; bpe has pieces of words"
MIN_COUNT_COMMENT = "rarer words are unknown, so that training has unknown words too"


def word_tokens(train: Sequence[str], valid: Sequence[str]) -> WordTokens:
    """Chooses the tokens by the training texts and the validation texts."""
    train, valid = train[:SAMPLED_TEXTS], valid[:SAMPLED_TEXTS]
    characters = CharacterCounts()
    characters.add(train)
    if not characters.script.spaces:
        return WordTokens(unknown=None)
    settings = TokenizerSettings(kind="wordpunct", min_count=MIN_COUNT, lowercase=True, vocab_size=MOST_WORDS)
    tokenizer = train_tokenizer(train, settings.kind, settings)
    ids = list(itertools.chain.from_iterable(tokenizer.encode_batch(valid)))
    return WordTokens(unknown=ids.count(tokenizer.unk_id) / max(len(ids), 1))
