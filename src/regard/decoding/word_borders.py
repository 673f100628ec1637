"""Which neighbouring characters are parts of one word."""

import unicodedata

WITHOUT_SPACES = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")  # scripts


def joins(one: str, other: str) -> bool:
    """True if two neighbouring characters are parts of one word."""
    letters = all(unicodedata.category(each)[0] in "LNM" for each in (one, other))
    return letters and not any(unicodedata.name(each, "").startswith(WITHOUT_SPACES) for each in (one, other))
