"""Fonts of a figure: the default one, then installed fonts with the characters that it lacks."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib
PLACEHOLDER_FONT = "Last Resort"  # has a box for every character


def font_families(texts: Iterable[str]) -> tuple[list[str], str]:
    """The fonts that cover these texts, the default first, and the characters that no font has."""
    from matplotlib.font_manager import fontManager

    missing = {character for text in texts for character in text if character.isprintable()}
    missing -= _characters(_path_of(DEFAULT_FONT))
    families = [DEFAULT_FONT]
    for entry in sorted(fontManager.ttflist, key=lambda each: (each.weight != 400, "Sans" not in each.name)):
        if not missing:
            break
        if entry.style != "normal" or entry.name in families or entry.name.startswith(PLACEHOLDER_FONT):
            continue
        if found := missing & _characters(entry.fname):
            families.append(entry.name)
            missing -= found
    return families, "".join(sorted(missing))


def _path_of(family: str) -> str:
    from matplotlib.font_manager import findfont

    return str(findfont(family))


@lru_cache(maxsize=512)
def _characters(path: str) -> frozenset[str]:
    """The characters of a font file; none if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(str(Path(path))).get_charmap()))
    except (OSError, RuntimeError, ValueError):
        return frozenset()
