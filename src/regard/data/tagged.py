"""Sentences of words with a label each: words of a text, their pieces, windows on long sentences."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.texts import NO_WORD, EncodedText
from regard.data.tokenizer import Tokenizer

Encode = Callable[[str], list[list[int]]]  # a text -> the ids of each of its words

CONTEXT = 4  # a window that is not at an end gives a quarter of itself to context on either side


@dataclass(frozen=True, kw_only=True)
class WordWindow:
    """The words from `first` to `end` of a sentence, of which those from `start` to `stop` are predicted."""

    first: int
    end: int
    start: int
    stop: int


def windows(sizes: Sequence[int], most: int) -> list[WordWindow]:
    """Parts of a sentence of at most `most` pieces, if its words have these `sizes`; one if all fit.

    Each word is predicted in one window and no other, there where it has context on both sides.
    """
    sizes = [min(size, most) for size in sizes]
    found, start = [], 0
    while start < len(sizes):
        first, room = start, most // CONTEXT
        if sum(sizes[start:]) <= most:  # the last one reaches back as far as it can
            room = most - sum(sizes[start:])
        while first > 0 and sizes[first - 1] <= min(room, most - sizes[start]):
            room -= sizes[first - 1]
            first -= 1
        while sum(sizes[first : start + 1]) > most:
            first += 1
        end, used = start, sum(sizes[first:start])
        while end < len(sizes) and used + sizes[end] <= most:
            used += sizes[end]
            end += 1
        stop, after = end, 0
        while end < len(sizes) and stop - 1 > start and after + sizes[stop - 1] <= most // CONTEXT:
            stop -= 1
            after += sizes[stop]
        found.append(WordWindow(first=first, end=end, start=start, stop=stop))
        start = stop
    return found


def tagged_texts(
    pieces: Sequence[Sequence[int]],
    labels: Sequence[int],
    *,
    tokenizer: Tokenizer,
    line: int,
    max_tokens: int,
) -> list[EncodedText]:
    """A sentence as texts of at most `max_tokens`, of which each word is predicted at its first piece, once.

    `pieces` are the ids of each word, `labels` its class; of a word that is longer than a text its beginning
    is read.
    """
    most = max_tokens - 2
    pieces = [list(word[:most]) or [tokenizer.unk_id] for word in pieces]
    texts = []
    for window in windows([len(word) for word in pieces], most):
        seen = pieces[window.first : window.end]
        ids = [tokenizer.bos_id, *(number for word in seen for number in word), tokenizer.eos_id]
        words = [window.first + i for i, word in enumerate(seen) for _ in word]
        firsts = 1 + np.cumsum([0, *(len(word) for word in seen)])[:-1]
        texts.append(
            EncodedText(
                ids=np.array(ids, np.int32),
                words=np.array([NO_WORD, *words, NO_WORD], np.int32),
                labels=np.array(labels[window.start : window.stop], np.int64),
                places=firsts[window.start - window.first : window.stop - window.first],
                line=line,
            )
        )
    return texts


def before_words(tokenizer: Tokenizer) -> str:
    """What a word of a sentence needs before it to become the ids that it has in running text.

    A space for the byte-level tokenisers of RoBERTa and its like, to which a word without one goes on with
    the word before; nothing where a tokeniser puts one there itself, or has none.
    """
    if tokenizer.is_ours:
        return ""
    alone, spaced = tokenizer.encode_words("x"), tokenizer.encode_words(" x")
    return " " if alone != spaced and tokenizer.encode_words("x x")[-len(spaced) :] == spaced else ""


def pieces_of(word: str, *, encode: Encode, before: str = "") -> list[int]:
    """The ids of a word, which a tokeniser may cut into several words of its own; `before` as above."""
    return [number for part in encode(before + word if word else word) for number in part]


def words_of(text: str) -> list[str]:
    """The words of a text: what stands between white space, punctuation at its ends apart.

    A run of one sign is one word ("..."), and a full stop stays where there is another in the word ("U.S.").
    """
    return [part for word in text.split() for part in _parts(word)]


def _parts(word: str) -> list[str]:
    inside = [place for place, sign in enumerate(word) if not _is_punctuation(sign)]
    if not inside:
        return _runs(word)
    first, last = inside[0], inside[-1] + 1
    if word[last : last + 1] == "." and "." in word[first:last]:
        last += 1
    return [*_runs(word[:first]), word[first:last], *_runs(word[last:])]


def _runs(signs: str) -> list[str]:
    return [found[0] for found in re.finditer(r"(.)\1*", signs)]


def _is_punctuation(sign: str) -> bool:
    """Punctuation, and signs of currencies."""
    category = unicodedata.category(sign)
    return category.startswith("P") or category == "Sc"
