"""How a run went: its metrics -> curves -> a figure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.inspection.figures import HUES, INK, PALE, figure_at

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = list[tuple[int, float]]  # step and value

FEW = 40  # points that are marked each
PERCENT = {"bleu", "chrf", "exact_match", "error_rate", "accuracy", "macro_f1", "label_error_rate"}


@dataclass(frozen=True, kw_only=True)
class Curves:
    """What was measured, step by step: losses in `loss_unit`, scores by name."""

    train_loss: Points = field(default_factory=list)
    validation_loss: Points = field(default_factory=list)
    scores: dict[str, Points] = field(default_factory=dict)
    learning_rate: Points = field(default_factory=list)
    loss_unit: str = "nats per prediction"

    @property
    def loss_label(self) -> str:
        return f"loss, {self.loss_unit}"

    @property
    def score_label(self) -> str:
        return "score, %" if self.scores.keys() <= PERCENT else "score"


def read_curves(records: Sequence[Mapping[str, Any]], *, loss_unit: str = "nats per prediction") -> Curves:
    """The curves in the records of a `metrics.jsonl`; what is not finite (null in the file) is left out."""
    curves = Curves(loss_unit=loss_unit)
    for record in records:
        if record.get("kind") == "train":
            _add(curves.train_loss, record, "loss")
            _add(curves.learning_rate, record, "learning_rate")
        elif record.get("kind") == "validation":
            _add(curves.validation_loss, record, "loss")
            for name in record:
                if name not in ("kind", "step", "epoch", "loss", "distinct_outputs"):
                    _add(curves.scores.setdefault(name, []), record, name)
    return curves


def _add(points: Points, record: Mapping[str, Any], name: str) -> None:
    value = record.get(name)
    if isinstance(value, int | float) and math.isfinite(value):
        points.append((record["step"], float(value)))


def draw_curves(curves: Curves, path: Path, *, title: str = "") -> None:
    """Write the figure to `path`, an .svg, .png or .pdf: losses, scores and learning rate over the steps.

    Raises:
        MissingExtra: matplotlib is not installed.
        UserError: nothing was measured yet, or no such kind of file can be written.
    """
    panels = [panel for panel in _panels(curves) if panel.series]
    if not panels:
        raise UserError("nothing was measured yet", "let the run go on to its first report")
    shares = [panel.share for panel in panels]
    with figure_at(path, 8, 0.9 + 0.9 * sum(shares), title=title) as figure:
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=shares)[:, 0]
        for axis, panel in zip(axes, panels, strict=True):
            _draw(axis, panel)
        axes[-1].set_xlim(left=0)
        axes[-1].set_xlabel("step", color=INK)
        axes[-1].xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """One quantity of a figure: its lines by name, their hues, and its share of the height."""

    label: str
    series: dict[str, Points]
    hues: tuple[str, ...]
    share: int = 3
    logarithmic: bool = False


def _panels(curves: Curves) -> list[_Panel]:
    losses = _some({"train": curves.train_loss, "validation": curves.validation_loss})
    rate = _some({"": curves.learning_rate})
    values = [value for points in losses.values() for _, value in points]
    falls_far = bool(values) and 0 < 2 * min(values) < max(values)
    return [
        _Panel(label=curves.loss_label, series=losses, hues=HUES, logarithmic=falls_far),
        _Panel(label=curves.score_label, series=_some(curves.scores), hues=HUES[2:] + HUES[:2]),
        _Panel(label="learning rate", series=rate, hues=(INK,), share=1),
    ]


def _some(series: Mapping[str, Points]) -> dict[str, Points]:
    return {name: points for name, points in series.items() if points}


def _draw(axis: "Axes", panel: _Panel) -> None:
    """The name of the panel above on the left; its lines, and where they end, above on the right."""
    axis.set_title(panel.label, loc="left", fontsize=10, color=INK)
    axis.grid(axis="y", color=PALE, linewidth=0.6)
    axis.tick_params(colors=INK, length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.margins(x=0.01)
    for number, (name, points) in enumerate(panel.series.items()):
        steps, values = zip(*points, strict=True)
        axis.plot(
            steps,
            values,
            color=panel.hues[number % len(panel.hues)],
            linewidth=1.6,
            marker="o" if len(points) <= FEW else "",
            markersize=3.5,
            label=f"{name.replace('_', ' ')}  {values[-1]:.4g}" if name else None,
        )
    if any(panel.series):
        axis.legend(
            loc="lower right",
            bbox_to_anchor=(1.0, 1.0),
            ncols=len(panel.series),
            frameon=False,
            labelcolor="linecolor",
            handlelength=1.2,
            borderpad=0.2,
        )
    if panel.logarithmic:
        _make_logarithmic(axis)


def _make_logarithmic(axis: "Axes") -> None:
    """Shows the long end of a loss as well as its fall; the numbers stay plain, and far enough apart."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    decades = math.log10(high / low)
    subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if decades < 1.2 else (1.0, 3.0) if decades < 3 else (1.0,)
    axis.yaxis.set_major_locator(LogLocator(subs=subs))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
