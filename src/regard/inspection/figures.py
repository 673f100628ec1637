"""Figures of matplotlib: how one is created and written. The same figure gives the same bytes."""

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import MissingExtra, UserError
from regard.inspection.fonts import font_families

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEXT_COLOUR, GRID_COLOUR = "#24292f", "#d0d7de"
LINE_COLOURS = ("#0969da", "#bc4c00", "#1a7f37", "#8250df")
FILE_TYPES = (".svg", ".png", ".pdf")
# The page's colour scales (colour.js) on white: darker is more; orange is below zero, blue above.
SEQUENTIAL = ("#f6f8fa", "#d3e3ee", "#9cc3de", "#5a9bc7", "#2b70a5", "#134a78", "#08264a")
DIVERGING = (
    *("#8a3b00", "#c8670f", "#eda55b", "#f8dcb9", "#f7f7f7"),
    *("#cbdfee", "#7fb2d6", "#2f77b0", "#0b3f73"),
)
HEAD_COLOURS = (  # of attention heads; each group of eight has its own dashes (strokes.js)
    *("#0c60c0", "#e46c00", "#780060", "#cc6ca8", "#9c2400", "#0000fc", "#cc786c", "#781830"),
    *("#90606c", "#cc54fc", "#0c843c", "#3c24a8", "#f0003c", "#8430fc", "#8484cc", "#b42490"),
)
HEAD_DASHES = ((), (7, 4), (2, 3), (11, 3, 2, 3), (16, 5), (2, 8), (9, 3, 2, 3, 2, 3), (4, 9))
TITLE, MIN_TITLE = 13, 6  # points
DOTS = 160  # per inch
FONTS = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}  # text stays text, in TrueType
DATES = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@contextmanager
def figure_at(
    path: Path,
    width: int | float,
    height: int | float,
    *,
    title: str = "",
    title_points: int | float = TITLE,
    texts: Iterable[str] = (),
) -> Iterator[Any]:
    """A matplotlib figure, `width` by `height` inches, that is written to `path` when the `with` ends.

    Fonts are chosen so that they have the characters of `title` and `texts`. The title has at most
    `title_points`.

    Raises:
        MissingExtra: matplotlib is not installed.
        UserError: the file type is not supported.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "drawing a figure") from None
    if path.suffix not in FILE_TYPES:
        raise UserError(
            f"{path}: a figure cannot be written as {path.suffix or 'a file without extension'}",
            "name it .svg, .png or .pdf",
        )
    families, _ = font_families([title, *texts])
    settings: Any = {
        **FONTS,
        "svg.hashsalt": "regard",
        "axes.edgecolor": GRID_COLOUR,
        "font.family": families,
    }
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # the caller reports characters that no font has
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = Figure(figsize=(width, height), dpi=DOTS, layout="constrained")
        if title:
            _add_title(figure, title, title_points)
        yield figure
        try:
            figure.savefig(path, dpi=DOTS, metadata=DATES.get(path.suffix))
        except OSError as error:  # of a full disk, it does not say which file it is about
            raise OSError(error.errno, error.strerror, error.filename or str(path)) from error


def colour_map(stops: Sequence[str]) -> Any:
    """A colour scale as a matplotlib colour map."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("regard", list(stops))


def head_line(head: int) -> dict[str, Any]:
    """The matplotlib line style of a head: the first 64 heads differ by colour or by dash."""
    dash = HEAD_DASHES[head // 8 % len(HEAD_DASHES)]
    style = (0, tuple(length / 2 for length in dash)) if dash else "solid"  # in line widths, not pixels
    return {"color": HEAD_COLOURS[head % len(HEAD_COLOURS)], "linestyle": style}


def _add_title(figure: Any, title: str, points: int | float) -> None:
    """Put the title at the top, in a smaller font if the figure is too narrow."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    text = figure.suptitle(title, x=0.01, ha="left", color=TEXT_COLOUR, fontsize=points, fontweight="bold")
    text.set_parse_math(False)
    max_width = 0.98 * figure.bbox.width
    width_needed = text.get_window_extent(FigureCanvasAgg(figure).get_renderer()).width
    if width_needed > max_width:
        text.set_fontsize(max(MIN_TITLE, points * max_width / width_needed))


def style_axis(axis: "Axes", name: str) -> None:
    """A panel with lines: its name at the top left, horizontal grid lines, and only the lower edge."""
    axis.set_title(name, loc="left", fontsize=10, color=TEXT_COLOUR)
    axis.grid(axis="y", color=GRID_COLOUR, linewidth=0.6)
    axis.tick_params(colors=TEXT_COLOUR, length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.margins(x=0.01)
