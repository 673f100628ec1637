"""Which neighbouring characters are parts of one word."""

import functools
import unicodedata

WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")  # scripts


@functools.lru_cache(maxsize=1 << 14)  # with five banned words 128 lines take 1.3 s of CPU time, 1.5 without
def joins(one: str, other: str) -> bool:
    """True if two neighbouring characters are parts of one word."""
    letters = all(unicodedata.category(each)[0] in "LNM" for each in (one, other))
    return letters and not any(unicodedata.name(each, "").startswith(WITHOUT_SPACES) for each in (one, other))
