"""How figures are begun and written: the same picture is the same bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from regard.errors import MissingExtra, UserError

INK, PALE = "#24292f", "#d0d7de"
HUES = ("#0969da", "#bc4c00", "#1a7f37", "#8250df")
KINDS = (".svg", ".png", ".pdf")


@contextmanager
def figure_at(path: Path, width: int | float, height: int | float, *, title: str = "") -> Iterator[Any]:
    """A matplotlib figure of so many inches, which is written to `path` when the `with` ends.

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
    with matplotlib.rc_context({"svg.hashsalt": "regard", "svg.fonttype": "none", "axes.edgecolor": PALE}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure
        if title:
            figure.suptitle(title, x=0.01, ha="left", color=INK, fontsize=13, fontweight="bold")
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, dpi=160, metadata=metadata)
