"""A normaliser of regard's tokenisers as rules of SentencePiece, which replaces the longest match.

SentencePiece does not split a text into words before it joins pieces. Only an apostrophe or a hyphen shows
this: in "don't" it belongs to the word, in "the 90's" and "'tis" it does not, and a piece like "'t" must not
be found there. So one outside a word becomes another character (`outside`), and pieces without letters are
spelled with it. What remains: one at the end of a text after a letter, more than three in a row, and rare
characters between two.
"""

import functools
import io
import itertools
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from regard.exports.sentencepiece_package import model_proto, sentencepiece

INNER = "'’-"  # what a word may have between letters; see PIECE_PATTERN of data/tokenizer_file.py
OUTSIDE = 0xE0A0  # the first of the characters for those outside a word, of the private use area
LONGEST_RUN = 3
COMMON = frozenset(  # characters next to which runs of apostrophes are replaced too
    [*range(0x20, 0x2070), *range(0x3000, 0x3040), *range(0xFF00, 0xFFF0)]
)

Rules = Mapping[str, str]
Normalize = Callable[[str], str]


def outside(mark: str) -> str:
    """The character that stands for one of `INNER` outside a word."""
    return chr(OUTSIDE + INNER.index(mark))


@functools.cache
def assigned() -> tuple[str, ...]:
    """All characters that a text may have: assigned ones, private ones of 16 bits, newer emoji."""
    return tuple(
        character
        for number in range(1, sys.maxunicode + 1)
        if (character := chr(number)).isprintable()
        or (category := unicodedata.category(character)) not in ("Cn", "Cs", "Co")
        or (category == "Co" and number < 0x10000)
        or 0x1F000 <= number < 0x1FB00
    )


def normalization_rules(normalize: Normalize) -> dict[str, str]:
    """What changes: single characters, and letters with marks that are one character together."""
    rules = {each: normalize(each) for each in assigned() if normalize(each) != each}
    for whole in assigned():
        parts = unicodedata.normalize("NFD", whole)
        if len(parts) == 1:
            continue
        spellings = {parts, unicodedata.normalize("NFC", parts[:-1]) + parts[-1]}
        if len(parts) == 3:
            spellings |= {parts[0] + parts[2] + parts[1], parts[0] + parts[1:]}
        rules |= {each: normalize(each) for each in spellings if len(normalize(each)) < len(each)}
    return rules


def outside_rules(marks: Collection[str], normalize: Normalize, letters: Collection[str]) -> dict[str, str]:
    """The replacements of these marks next to what is not a letter; `letters` are categories like "L"."""
    rules = {run: _replaced(run) for run in _runs(marks, LONGEST_RUN + 1) if len(run) > 1}
    for other in assigned():
        if unicodedata.category(other)[0] in letters or other in marks or other in "\0\n\r":
            continue
        between = normalize(other)
        for run in _runs(marks, LONGEST_RUN if ord(other) in COMMON else 1):
            rules[other + run] = between + _replaced(run)
        for mark in marks:
            rules[mark + other] = outside(mark) + between
            for run in _runs(marks, LONGEST_RUN) if ord(other) in COMMON else ():
                rules[mark + other + run] = outside(mark) + between + _replaced(run)
    return rules


def compiled(rules: Rules) -> bytes:
    """The rules in SentencePiece's own form, `precompiled_charsmap`; its trainer compiles them."""
    if not rules:
        return b""
    written = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rules.tsv"
        lines = (f"{_numbers(before)}\t{_numbers(after)}\n" for before, after in rules.items())
        table.write_text("".join(lines), "ascii")
        sentencepiece().SentencePieceTrainer.train(
            sentence_iterator=iter(["a b"]),
            model_writer=written,
            model_type="char",
            vocab_size=5,
            hard_vocab_limit=False,
            normalization_rule_tsv=str(table),
            minloglevel=2,
        )
    return model_proto(written.getvalue()).normalizer_spec.precompiled_charsmap


def _runs(marks: Collection[str], longest: int) -> Iterator[str]:
    for length in range(1, longest + 1):
        yield from map("".join, itertools.product(marks, repeat=length))


def _replaced(run: str) -> str:
    return "".join(map(outside, run))


def _numbers(text: str) -> str:
    return " ".join(f"{ord(each):X}" for each in text)
