"""The classes of characters that the tokenizers library has.

A browser may know another version of Unicode, so they are stored in an export. A class is written as text:
how far each range begins after the last one, and how many follow, in base 36.
"""

import struct
from collections.abc import Callable, Iterable
from functools import cache

from tokenizers import Regex, normalizers, pre_tokenizers

SURROGATES = range(0xD800, 0xE000)
PLANES = range(0x40000), range(0xE0000, 0xE1000)  # the others are empty, or for private use
MARK = "\u0301"  # extends a grapheme
LOW, HIGH = "\u0334", "\u0345"  # of the combining classes 1 and 240, the least and the greatest
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
PROPERTIES = ("L", "M", "N")
NOTHING = "\0"  # stands between characters: no normaliser changes it or joins it to them


@cache
def character_class(name: str) -> str:
    """Letters, marks, numbers; what normalisers change, move or take as one; capitals and small letters."""
    if name in PROPERTIES:
        return as_text(matched(rf"\p{{{name}}}"))
    if name == "lowercase":
        return lowercase()
    return as_text({"extending": extending, "prepended": prepended, "normalized": normalized}[name]())


def lowercase() -> str:
    """Each capital and, after it, what it becomes, with spaces between them."""
    lower = normalizers.Lowercase()
    return " ".join(chr(point) + lower.normalize_str(chr(point)) for point in sorted(changed(lower)))


def characters() -> Iterable[int]:
    """All code points but surrogates, and those of planes in which Unicode has no characters."""
    return (point for plane in PLANES for point in plane if point not in SURROGATES)


def matched(pattern: str) -> set[int]:
    """The characters that a regular expression matches."""
    removed = pre_tokenizers.Split(Regex(pattern), "removed")
    kept = removed.pre_tokenize_str("".join(map(chr, characters())))
    return set(characters()) - {ord(each) for piece, _ in kept for each in piece}


def changed(normalizer: normalizers.Normalizer, before: str = "", after: str = "") -> set[int]:
    """The characters that a normaliser changes between these others."""
    points = list(characters())
    whole = NOTHING.join(f"{before}{chr(point)}{after}" for point in points)
    found = normalizer.normalize_str(whole).split(NOTHING)[1:]  # before the first is that of U+0000 itself
    return {
        point
        for point, text in zip(points, found, strict=True)
        if point and text != f"{before}{chr(point)}{after}"
    }


def normalized() -> set[int]:
    """All characters that decompose, that are parts of such ones, or that are put in order."""
    decomposing = changed(normalizers.NFD()) | changed(normalizers.NFKD())
    whole = "".join(map(chr, sorted(decomposing)))
    parts = set(map(ord, normalizers.NFD().normalize_str(whole)))
    parts |= set(map(ord, normalizers.NFKD().normalize_str(whole)))
    moved = changed(normalizers.NFD(), after=LOW) | changed(normalizers.NFD(), before=HIGH)
    return decomposing | parts | moved | {ord(LOW), ord(HIGH)}


def extending() -> set[int]:
    """The characters that belong to the grapheme of the one before them."""
    return _around_a(lambda character: f"a{character}", lambda character: "X")


def prepended() -> set[int]:
    """The characters that belong to the grapheme of the one after them."""
    return _around_a(lambda character: f"{character}a{MARK}", lambda character: f"{character}X{MARK}")


def _around_a(given: Callable[[str], str], expected: Callable[[str], str]) -> set[int]:
    """The characters with which a table of sentencepiece gives what is expected, in which "a" becomes "X".

    The library divides texts into graphemes for such tables only: a grapheme that begins with a text of the
    table is replaced as a whole, and another one character by character.
    """
    units = [0] * 256
    units[0] = 1 << 10  # the root: the place of a byte is the byte, xor 1
    units[ord("a") ^ 1] = 1 << 10 | 1 << 8 | ord("a")  # ends a text, whose value is at the place xor 1
    units[ord("a")] = 1 << 31  # the value: where the text's replacement begins
    trie = struct.pack("<256I", *units)
    table = normalizers.Precompiled(struct.pack("<I", len(trie)) + trie + b"X\0")
    all_but_nothing = [chr(point) for point in characters() if point]
    found = table.normalize_str(NOTHING.join(map(given, all_but_nothing))).split(NOTHING)
    return {ord(each) for each, text in zip(all_but_nothing, found, strict=True) if text == expected(each)}


def as_text(points: Iterable[int]) -> str:
    """A set of code points as ranges."""
    found: list[list[int]] = []
    for point in sorted(points):
        if found and point == found[-1][1] + 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    last, written = 0, []
    for first, end in found:
        written.append(_base_36(first - last) + (f"+{_base_36(end - first)}" if end > first else ""))
        last = end
    return " ".join(written)


def _base_36(number: int) -> str:
    return (_base_36(number // 36) if number >= 36 else "") + DIGITS[number % 36]
