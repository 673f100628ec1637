"""Tagged sentences: splits texts into words, encodes words, cuts long sentences into windows."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from regard.data.texts import NO_WORD, EncodedText
from regard.data.tokenizer import Tokenizer

Encode = Callable[[str], list[list[int]]]  # a text -> the ids of each of its words

CONTEXT = 4  # an inner window has a quarter of its pieces as context on either side


@dataclass(frozen=True, kw_only=True)
class WordWindow:
    """A part of a sentence: its words, and those of them that are predicted."""

    first: int  # the words of the window, `first:end`
    end: int
    start: int  # the words that are predicted, `start:stop`
    stop: int


def word_windows(sizes: Sequence[int], max_pieces: int) -> list[WordWindow]:
    """Windows of at most `max_pieces` on a sentence whose words have `sizes` pieces.

    Each word is predicted in exactly one window, where possible with context on both sides.
    """
    sizes = [min(size, max_pieces) for size in sizes]
    found, start = [], 0
    while start < len(sizes):
        first, room = start, max_pieces // CONTEXT
        if sum(sizes[start:]) <= max_pieces:  # the last window begins as early as possible
            room = max_pieces - sum(sizes[start:])
        while first > 0 and sizes[first - 1] <= min(room, max_pieces - sizes[start]):
            room -= sizes[first - 1]
            first -= 1
        while sum(sizes[first : start + 1]) > max_pieces:
            first += 1
        end, used = start, sum(sizes[first:start])
        while end < len(sizes) and used + sizes[end] <= max_pieces:
            used += sizes[end]
            end += 1
        stop, after = end, 0
        while end < len(sizes) and stop - 1 > start and after + sizes[stop - 1] <= max_pieces // CONTEXT:
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
    """Encodes a sentence as texts of at most `max_tokens`; each word is predicted once, at its first piece.

    `pieces` are the ids of each word, `labels` its class. A word that is longer than a text is truncated.
    """
    max_pieces = max_tokens - 2
    pieces = [list(word[:max_pieces]) or [tokenizer.unk_id] for word in pieces]
    texts = []
    for window in word_windows([len(word) for word in pieces], max_pieces):
        visible = pieces[window.first : window.end]
        ids = [tokenizer.bos_id, *(number for word in visible for number in word), tokenizer.eos_id]
        words = [window.first + i for i, word in enumerate(visible) for _ in word]
        firsts = 1 + np.cumsum([0, *(len(word) for word in visible)])[:-1]
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


def word_prefix(tokenizer: Tokenizer) -> str:
    """The prefix with which a single word gets the ids that it has in running text.

    It is a space for byte-level tokenisers such as RoBERTa's, which read a word without a space as the
    continuation of the previous word; empty for tokenisers that add the space or have none.
    """
    if tokenizer.trained_by_regard:
        return ""
    alone, spaced = tokenizer.encode_words("x"), tokenizer.encode_words(" x")
    return " " if alone != spaced and tokenizer.encode_words("x x")[-len(spaced) :] == spaced else ""


def encode_word(word: str, *, encode: Encode, prefix: str = "") -> list[int]:
    """The ids of a word, which the tokeniser may split further; `prefix` is its prefix (`word_prefix`)."""
    return [number for part in encode(prefix + word if word else word) for number in part]


def split_words(text: str) -> list[str]:
    """Splits a text into words at white space, with leading and trailing punctuation as words of their own.

    A run of the same sign is one word ("..."). A final full stop stays if the word has another ("U.S.").
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
    """True for punctuation and currency signs."""
    category = unicodedata.category(sign)
    return category.startswith("P") or category == "Sc"
