"""Recognises lines that another tool has cut into subwords or tokens."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MIN_SHARE = 0.1  # of the lines, with the mark of a tool; long words are rare in some corpora
MIN_MARKED = 3  # lines, however few there are
MIN_TOKENISED_SHARE = 0.9  # of the lines with a comma or a full stop, where a space stands before it
MIN_LINES = 20  # with a comma or full stop, to tell
_PUNCTUATION = re.compile(r"[^\W\d_] ?[,.](?= |$)")  # after a letter: "word," or "word ,"


@dataclass(frozen=True, kw_only=True)
class Segmentation:
    """What a tool has done to the lines, and what to give instead; both are parts of sentences."""

    done: str
    instead: str


_BEFORE = "give the text from before, for the model learns its own subwords"
_MARKS = (
    (r"[^\s@]@@( |$)", "cut into subwords by subword-nmt (@@)", _BEFORE),
    (r"(^| )\u2581", "cut into subwords by SentencePiece (\u2581)", _BEFORE),
    ("\uffed", "cut into tokens by OpenNMT's Tokenizer (\uffed)", _BEFORE),
    (r"\S\uffe8\S", "words with factors (\uffe8)", "give the words alone; factors are not read"),
)  # a pattern that a tool's lines have, and the two parts of its `Segmentation`
_TOKENISED = Segmentation(
    done="tokenised, with a space before its commas and full stops",
    instead="give the text from before (sacremoses detokenises), or tokenise what you translate as well",
)


def segmentation_of(lines: Sequence[str]) -> Segmentation | None:
    """What another tool did to these lines; None if they look like text as people write it."""
    for mark, done, instead in _MARKS:
        if sum(re.search(mark, line) is not None for line in lines) >= max(
            MIN_SHARE * len(lines), MIN_MARKED
        ):
            return Segmentation(done=done, instead=instead)
    marks = [found[0] for line in lines if (found := _PUNCTUATION.search(line))]
    spaced = sum(" " in mark for mark in marks)
    return _TOKENISED if spaced >= max(MIN_LINES, MIN_TOKENISED_SHARE * len(marks)) else None
