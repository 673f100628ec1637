"""Fonts of a figure: the first one, and those of this machine that have the signs which it lacks."""

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

DEFAULT_FONT = "DejaVu Sans"  # comes with matplotlib
PLACEHOLDER_FONT = "Last Resort"  # has a box for every sign


def font_families(texts: Iterable[str]) -> tuple[list[str], str]:
    """The fonts in which these texts can be written, the first first; and the signs that none of them has."""
    from matplotlib.font_manager import fontManager

    missing = {sign for text in texts for sign in text if sign.isprintable()}
    missing -= _signs(_path_of(DEFAULT_FONT))
    families = [DEFAULT_FONT]
    for entry in sorted(fontManager.ttflist, key=lambda each: (each.weight != 400, "Sans" not in each.name)):
        if not missing:
            break
        if entry.style != "normal" or entry.name in families or entry.name.startswith(PLACEHOLDER_FONT):
            continue
        if found := missing & _signs(entry.fname):
            families.append(entry.name)
            missing -= found
    return families, "".join(sorted(missing))


def _path_of(family: str) -> str:
    from matplotlib.font_manager import findfont

    return str(findfont(family))


@lru_cache(maxsize=512)
def _signs(path: str) -> frozenset[str]:
    """The signs that a font file has; none if it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(str(Path(path))).get_charmap()))
    except (OSError, RuntimeError, ValueError):
        return frozenset()
