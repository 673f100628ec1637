"""Forbidding a text as a word of its own, or as several, however it is cut into tokens.

A model of which one spelling is forbidden often outputs another: for "Zug" the tokens "Zu" and "g". So the
text of the hypothesis is compared, not its tokens. Longer words that contain the text may be output.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Int64
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.decoding.phrases import TOKENS_OF_CHARACTER, WINDOW, Words, usual_forms
from regard.decoding.rules import NO_TOKEN, BanningRule, GeneratedTokens, few_columns
from regard.decoding.word_borders import joins

PART_OF_A_CHARACTER = "\ufffd"  # what decodes to it


class TokenTexts:
    """What each token adds to a text: with a space before it if it begins a word."""

    def __init__(self, tokenizer: Words) -> None:
        after = _word_token(tokenizer)  # that the others follow here
        before = tokenizer.decode([after])
        self.texts: list[str] = []
        self.others: list[
            int
        ] = []  # their text depends on the tokens before: parts of characters, and few more
        for token in range(tokenizer.vocab_size):
            text = tokenizer.decode([after, token])
            rest = text[len(before) :]
            if not text.startswith(before) or PART_OF_A_CHARACTER in rest or not rest:
                self.others.append(token)
            self.texts.append(text[len(before) :] if text.startswith(before) else "")


_known: WeakKeyDictionary[Words, TokenTexts] = WeakKeyDictionary()  # 5 us a token: 0.18 s for BPE of 34,000


def _word_token(tokenizer: Words) -> int:
    """A token that is no part of a character; any if there is none."""

    def is_whole(token: int) -> bool:
        text = tokenizer.decode([token])
        return bool(text.strip()) and PART_OF_A_CHARACTER not in text

    tokens = range(tokenizer.vocab_size)
    return next(chain(filter(is_whole, tokens), tokens))


def token_texts(tokenizer: Words) -> TokenTexts:
    """The texts of a tokeniser's tokens, computed once."""
    if tokenizer not in _known:
        _known[tokenizer] = TokenTexts(tokenizer)
    return _known[tokenizer]


def can_write(tokenizer: Words, text: str) -> bool:
    """True if tokens of the vocabulary, one after another, can give a text as words of its own."""
    if usual_forms(tokenizer, text):
        return True
    found = token_texts(tokenizer)
    if not text.isascii() and any(PART_OF_A_CHARACTER in tokenizer.decode([each]) for each in found.others):
        return True  # perhaps: by bytes
    if any(_times(text, each, 0) for each in found.texts):
        return True
    begun = {len(each.lstrip()) for each in found.texts if each.strip() and text.startswith(each.lstrip())}
    for place in range(1, len(text)):
        rest = text[place:]
        if place in begun:
            begun |= {place + len(each) for each in found.texts if each and rest.startswith(each)}
            if any(each.startswith(rest) and _is_border(rest, each[len(rest) :]) for each in found.texts):
                return True
    return False


@dataclass(frozen=True)
class BannedWords(BanningRule):
    """Forbids each token with which one of the texts would stand in the output between other words."""

    texts: tuple[str, ...]
    tokenizer: Words

    @cached_property
    def _completing(self) -> dict[str, list[int]]:
        """The tokens that complete a text, by what they complete of it, computed once."""
        return {}

    def banned(self, generated: GeneratedTokens) -> Int64[Tensor, "rows banned"]:
        found = [torch.tensor(self._of_row(ids), dtype=torch.int64) for ids in generated.ids.tolist()]
        return few_columns(pad_sequence(found, batch_first=True, padding_value=NO_TOKEN))

    def _of_row(self, ids: Sequence[int]) -> list[int]:
        """The tokens that complete a text after these, perhaps several times."""
        window = ids[-(TOKENS_OF_CHARACTER * max(map(len, self.texts)) + WINDOW) :]
        before = self.tokenizer.decode(window)
        found = [token for text in self.texts for token in self._of_text(text, before)]
        if any(not text.isascii() for text in self.texts):
            times = self._times_in(before)
            found += [
                token
                for token in token_texts(self.tokenizer).others
                if self._times_in(self.tokenizer.decode([*window, token])) > times
            ]
        return found

    def _times_in(self, whole: str) -> int:
        """How often the texts are in this one."""
        return sum(_times(text, whole, 0) for text in self.texts)

    def _of_text(self, text: str, before: str) -> list[int]:
        found = list(self._within(text))
        for length in range(min(len(text) - 1, len(before)) + 1):
            if before.endswith(text[:length]) and _is_border(before[: len(before) - length], text[0]):
                found += self._beginning_with(text[length:], text)
        return found

    def _within(self, text: str) -> list[int]:
        """The tokens in which the text stands after a character of the same token."""
        key = f"within {text}"
        if key not in self._completing:
            texts = token_texts(self.tokenizer).texts
            self._completing[key] = [token for token, each in enumerate(texts) if _times(text, each, 1)]
        return self._completing[key]

    def _beginning_with(self, rest: str, text: str) -> list[int]:
        """The tokens that begin with the rest of a text, after which its last word ends."""
        key = f"{len(rest)} {text}"
        if key not in self._completing:
            texts = token_texts(self.tokenizer).texts
            self._completing[key] = [
                token
                for token, each in enumerate(texts)
                if each.startswith(rest) and _is_border(rest, each[len(rest) :])
            ]
        return self._completing[key]


def _times(text: str, whole: str, begin: int) -> int:
    """How often the text is in the whole, at this place or later, as words of their own."""
    found, place = 0, whole.find(text, begin)
    while place >= 0:
        end = place + len(text)
        found += _is_border(whole[:place], text) and _is_border(text, whole[end:])
        place = whole.find(text, place + 1)
    return found


def _is_border(before: str, after: str) -> bool:
    """True if the last character of one text and the first of the other are not of the same word."""
    return not (before and after and joins(before[-1], after[0]))
