"""How figures are begun and written: the same picture is the same bytes."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import MissingExtra, UserError
from regard.inspection.fonts import font_families

INK, PALE = "#24292f", "#d0d7de"
HUES = ("#0969da", "#bc4c00", "#1a7f37", "#8250df")
KINDS = (".svg", ".png", ".pdf")
# The scales of the page (colour.js), on light paper: more is darker; orange is below nought, blue above.
SEQUENTIAL = ("#f6f8fa", "#d3e3ee", "#9cc3de", "#5a9bc7", "#2b70a5", "#134a78", "#08264a")
DIVERGING = (
    *("#8a3b00", "#c8670f", "#eda55b", "#f8dcb9", "#f7f7f7"),
    *("#cbdfee", "#7fb2d6", "#2f77b0", "#0b3f73"),
)
HEAD_COLOURS = (  # those of heads, and the dashes of each eight of them (strokes.js)
    *("#0c60c0", "#e46c00", "#780060", "#cc6ca8", "#9c2400", "#0000fc", "#cc786c", "#781830"),
    *("#90606c", "#cc54fc", "#0c843c", "#3c24a8", "#f0003c", "#8430fc", "#8484cc", "#b42490"),
)
HEAD_DASHES = ((), (7, 4), (2, 3), (11, 3, 2, 3), (16, 5), (2, 8), (9, 3, 2, 3, 2, 3), (4, 9))
TITLE, MIN_TITLE = 13, 6  # points
FONTS = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}  # text stays text, in TrueType
DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@contextmanager
def figure_at(
    path: Path, width: int | float, height: int | float, *, title: str = "", texts: Iterable[str] = ()
) -> Iterator[Any]:
    """A matplotlib figure of so many inches, which is written to `path` when the `with` ends.

    `texts` are what is written into it beside plain English: fonts are looked for that have their signs.

    Raises:
        MissingExtra: matplotlib is not installed.
        UserError: no such kind of file can be written.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "drawing a figure") from None
    if path.suffix not in KINDS:
        raise UserError(
            f"{path}: no figure is written as {path.suffix or 'that'}", "name it .svg, .png or .pdf"
        )
    families, _ = font_families([title, *texts])
    settings: Any = {**FONTS, "svg.hashsalt": "regard", "axes.edgecolor": PALE, "font.family": families}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Signs that no font of this machine has are told by whoever asked for the figure.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        if title:
            _entitle(figure, title)
        figure.savefig(path, dpi=160, metadata=DATES.get(path.suffix))


def colours(stops: Sequence[str]) -> Any:
    """A scale of the page's as a colour map."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("regard", list(stops))


def head_line(head: int) -> dict[str, Any]:
    """How matplotlib draws the line of a head: 64 of them differ by colour or by dash."""
    dash = HEAD_DASHES[head // 8 % len(HEAD_DASHES)]
    style = (0, tuple(length / 2 for length in dash)) if dash else "solid"  # of a line's width, not pixels
    return {"color": HEAD_COLOURS[head % len(HEAD_COLOURS)], "linestyle": style}


def _entitle(figure: Any, title: str) -> None:
    """The title above all, as large as its figure is wide."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    text = figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=TITLE, fontweight="bold")
    room = 0.98 * figure.bbox.width
    needed = text.get_window_extent(FigureCanvasAgg(figure).get_renderer()).width
    if needed > room:
        text.set_fontsize(max(MIN_TITLE, TITLE * room / needed))
