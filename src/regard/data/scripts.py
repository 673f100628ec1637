"""Script detection: the writing system of a text, with or without spaces between words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

JAPANESE = "Japanese"  # kana, with Han characters among them
KANA = frozenset({"Hiragana", "Katakana"})
WITHOUT_SPACES = frozenset(
    {JAPANESE, *KANA, "Han", "Bopomofo", "Thai", "Lao", "Khmer", "Myanmar", "Tibetan"}
    | {"Tai", "Javanese", "Balinese", "Yi", "Tangut", "Nushu"}
)
SPACELESS_SHARE = 0.2  # of the letters: with more in scripts without spaces, spaces do not separate words
KANA_SHARE = 0.05  # of the kana and Han characters: with more kana, a text is Japanese
MIXED = 0.7  # of the letters in scripts without spaces: below it, no script dominates

_NAME = re.compile(
    r"(?:(?:HALFWIDTH|FULLWIDTH|CIRCLED|SQUARE) )?"
    r"(CANADIAN|OLD \w+|(?!MODIFIER|COMBINING|MATHEMATICAL|DOUBLE-STRUCK|SCRIPT|BLACK-LETTER)[A-Z]+)"
)
_OTHER_NAMES = {"CJK": "Han", "IDEOGRAPHIC": "Han", "KATAKANA-HIRAGANA": "Katakana", "ANGSTROM": "Latin"}
_NAMES_WITHOUT_SCRIPT = {"Micro", "Masculine", "Feminine", "Ohm", "Kelvin", "Variation", "Zero", "Enclosing"}


@dataclass(frozen=True, kw_only=True)
class Script:
    """The script of a text.

    `script` is Unicode's name ("Latin", "Han", "Hangul", "Thai"), "Japanese" for kana with or without Han
    characters, "mixed" for several scripts without spaces, "none" for a text without letters.
    """

    script: str
    share: float  # of the letters that are in this script, from 0 to 1
    spaces: bool  # between words
    shares: Mapping[str, float]  # Unicode script -> its share of the letters


@lru_cache(maxsize=1 << 16)
def script_of(character: str) -> str | None:
    """The script of a character by its name in Unicode; None for digits, punctuation and common marks."""
    if unicodedata.category(character)[0] not in "LM":
        return None
    found = _NAME.match(unicodedata.name(character, ""))
    if found is None:
        return None
    name = _OTHER_NAMES.get(found[1], found[1].title())
    return None if name in _NAMES_WITHOUT_SCRIPT else name


def detect_script(texts: Iterable[str]) -> Script:
    """Detects the script of several texts together."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return script_of_counts(counts)


def script_of_counts(characters: Mapping[str, int]) -> Script:
    """Detects the script of a text from its character frequencies."""
    letters: Counter[str] = Counter()
    for character, count in characters.items():
        if script := script_of(character):
            letters[script] += count
    total = letters.total()
    if not total:
        return Script(script="none", share=0.0, spaces=True, shares={})
    shares = {script: count / total for script, count in letters.most_common()}
    merged = _japanese(shares)
    spaceless = {script: share for script, share in merged.items() if script in WITHOUT_SPACES}
    if sum(spaceless.values()) < SPACELESS_SHARE:
        script = max(merged, key=lambda script: (script not in WITHOUT_SPACES, merged[script]))
        return Script(script=script, share=merged[script], spaces=True, shares=shares)
    script = max(spaceless, key=lambda script: spaceless[script])
    if spaceless[script] < MIXED * sum(spaceless.values()):
        return Script(script="mixed", share=sum(spaceless.values()), spaces=False, shares=shares)
    return Script(script=script, share=spaceless[script], spaces=False, shares=shares)


def _japanese(shares: Mapping[str, float]) -> dict[str, float]:
    """The shares with kana and Han merged into one script if enough of them is kana."""
    kana = sum(shares.get(script, 0.0) for script in KANA)
    both = kana + shares.get("Han", 0.0)
    if kana == 0 or kana < KANA_SHARE * both:
        return dict(shares)
    return {JAPANESE: both} | {
        script: share for script, share in shares.items() if script not in KANA and script != "Han"
    }
