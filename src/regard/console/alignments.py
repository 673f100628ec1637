"""Attention weights between tokens on stdout: coloured or shaded cells."""

import math
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from regard.console.streams import printable, stdout

SHADES = " ░▒▓█"
SHADES_ASCII = " .:*#"


def alignment(source: Sequence[str], target: Sequence[str], weights: Sequence[Sequence[float]]) -> None:
    """Print attention weights to stdout: rows are target tokens, columns source tokens.

    Cells are coloured on a terminal and shaded elsewhere. Source tokens are written vertically; columns
    beyond the terminal's width continue below.
    """
    out = stdout()
    source, target = [printable(token) for token in source], [printable(token) for token in target]
    margin = max(map(cell_len, target), default=0) + 1
    columns_at_once = max((out.width - margin) // 2, 1) if out.is_terminal else max(len(source), 1)
    shades = SHADES if out.encoding.startswith("utf") else SHADES_ASCII
    coloured = out.is_terminal and out.color_system is not None and not out.no_color
    for start in range(0, len(source), columns_at_once):
        part = source[start : start + columns_at_once]
        height = max(map(len, part))
        for row in range(height):
            letters = [token.rjust(height)[row] for token in part]
            out.print(Text((" " * margin + "".join(map(_two_wide, letters))).rstrip()))
        for token, row_weights in zip(target, weights, strict=True):
            line = Text(" " * (margin - 1 - cell_len(token)) + token + " ")
            for weight in row_weights[start : start + columns_at_once]:
                if coloured:
                    line.append("  ", _heat(weight))
                else:
                    line.append(shades[_level(weight)] * 2)
            if not coloured:
                line.rstrip()
            out.print(line)


def _two_wide(letter: str) -> str:
    return letter + " " * (2 - cell_len(letter))


def _level(weight: float) -> int:
    """The shade of a weight, from 0 (below 0.05) to 4 (0.67 or more)."""
    return sum(weight >= bound for bound in (0.05, 0.2, 0.4, 0.67))


def _heat(weight: float) -> str:
    """The background of a weight, from grey, visible on dark and light, to orange; none below 0.02."""
    if weight < 0.02:
        return ""
    share = min(math.sqrt(weight), 1.0)
    red, green, blue = (round(a + (b - a) * share) for a, b in ((96, 255), (96, 140), (96, 0)))
    return f"on rgb({red},{green},{blue})"
