"""Texts with masked tokens, as people write them: the ids around each mask."""

import re
from collections.abc import Iterator, Sequence

from regard.data.tokenizer import Tokenizer

SPELLINGS = "[MASK]", "<mask>"  # of a masked token, besides the model's own
SOME_WORD = "x"


def mask_id(tokenizer: Tokenizer) -> int:
    """The id of a masked token; models of regard mask with <unk>."""
    return tokenizer.unk_id if tokenizer.mask_id is None else tokenizer.mask_id


def mask_spellings(tokenizer: Tokenizer) -> list[str]:
    """How a masked token may be written."""
    return list(dict.fromkeys((*SPELLINGS, *tokenizer.tokens([mask_id(tokenizer)]))))


def usual_spellings(tokenizer: Tokenizer) -> list[str]:
    """Those to recommend: without <unk>, which stands for what a model does not know."""
    unknown = tokenizer.tokens([tokenizer.unk_id]) if tokenizer.mask_id is None else []
    return [each for each in mask_spellings(tokenizer) if each not in unknown]


def split_at_masks(tokenizer: Tokenizer, text: str) -> list[str]:
    """The parts of a text before, between and after its masked tokens."""
    return re.split("|".join(map(re.escape, mask_spellings(tokenizer))), text)


def in_context(tokenizer: Tokenizer, segments: Sequence[str]) -> Iterator[list[int]]:
    """The ids of the parts of a text between masked tokens, encoded as if each mask were a word.

    In a tokeniser whose words begin with their space, the space before a mask belongs to the masked token.
    """
    spaced = spaces_begin_words(tokenizer)
    for number, segment in enumerate(segments):
        if spaced and number < len(segments) - 1:
            segment = segment.rstrip()
        words = tokenizer.encode_words(segment) if number == 0 else _after_a_word(tokenizer, segment)
        yield [each for word in words for each in word]


def spaces_begin_words(tokenizer: Tokenizer) -> bool:
    """True if a word has the space before it."""
    return len(tokenizer.words(f"{SOME_WORD} {SOME_WORD}")) == 2


def _after_a_word(tokenizer: Tokenizer, segment: str) -> list[list[int]]:
    first, *others = tokenizer.words(SOME_WORD + segment)
    if [first] == tokenizer.words(SOME_WORD):
        return [tokenizer.word_ids(word) for word in others]
    return tokenizer.encode_words(segment)  # it continues the word: "un[MASK]able"
