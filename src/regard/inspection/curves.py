"""Learning curves: from the records of `metrics.jsonl` to a figure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import UserError
from regard.inspection.figures import LINE_COLOURS, TEXT_COLOUR, figure_at, head_line, style_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Points = list[tuple[int, float]]  # step and value

MAX_MARKED_POINTS = 40  # a line with more points has no markers
PERCENT = {
    "bleu", "chrf++", "chrf", "exact_match", "error_rate", "accuracy", "macro_f1", "label_error_rate",
    "entity_precision", "entity_recall", "entity_f1",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Curves:
    """Losses in `loss_unit`, scores by name and learning rates, each as (step, value) points."""

    train_loss: Points = field(default_factory=list)
    validation_loss: Points = field(default_factory=list)
    scores: dict[str, Points] = field(default_factory=dict)
    learning_rate: Points = field(default_factory=list)
    loss_unit: str = "nats per prediction"

    @property
    def loss_label(self) -> str:
        return f"loss, {self.loss_unit}"

    @property
    def score_panels(self) -> dict[str, dict[str, Points]]:
        """The scores by scale: percent, bits, and each other one for itself. Keys are labels of an axis."""
        panels: dict[str, dict[str, Points]] = {}
        for name, points in self.scores.items():
            panels.setdefault(_score_label(name), {})[name] = points
        return panels


def _score_label(name: str) -> str:
    if name in PERCENT:
        return "score, %"
    return "bits" if name.startswith("bits_per_") else name.replace("_", " ")


def read_curves(records: Sequence[Mapping[str, Any]], *, loss_unit: str = "nats per prediction") -> Curves:
    """The curves in the records of a `metrics.jsonl`; values that are not finite (null) are left out."""
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
    """Write losses, scores and learning rate over the steps to `path`, an .svg, .png or .pdf file.

    Raises:
        MissingExtra: matplotlib is not installed.
        UserError: there are no measurements, or the file type is not supported.
    """
    panels = [panel for panel in _panels(curves) if panel.series]
    if not panels:
        raise UserError("nothing was measured yet", "let the run continue to its first report")
    height_ratios = [panel.height_ratio for panel in panels]
    with figure_at(path, 8, 0.9 + 0.9 * sum(height_ratios), title=title) as figure:
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False, height_ratios=height_ratios)[:, 0]
        for axis, panel in zip(axes, panels, strict=True):
            _draw(axis, panel)
        _style_steps(axes[-1])


def draw_runs(runs: Mapping[str, Curves], path: Path, *, title: str = "") -> None:
    """Write the curves of several runs, by name, to `path`: a panel for each loss, score and learning rate.

    A run has one colour in all panels, and a legend names it.

    Raises:
        MissingExtra: matplotlib is not installed.
        UserError: there are no measurements, or the file type is not supported.
    """
    panels: dict[str, dict[str, Points]] = {}
    for name, curves in runs.items():
        for label, points in _quantities(curves).items():
            panels.setdefault(label, {})[name] = points
    if not panels:
        raise UserError("nothing was measured yet", "let the runs continue to their first reports")
    lines = {name: head_line(number) for number, name in enumerate(runs)}
    with figure_at(path, 8, 1.2 + 1.9 * len(panels) + 0.2 * len(runs), title=title, texts=runs) as figure:
        axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
        handles: dict[str, Any] = {}
        for axis, (label, series) in zip(axes, panels.items(), strict=True):
            handles |= _draw_lines(axis, label, series, lines)
        _style_steps(axes[-1])
        shown = [name for name in runs if name in handles]
        legend = {"loc": "outside lower left", "frameon": False, "labelcolor": TEXT_COLOUR}
        figure.legend([handles[name] for name in shown], shown, **legend)


def _quantities(curves: Curves) -> dict[str, Points]:
    """What was measured of a run, by the label of its panel."""
    scores = {_own_label(name): points for name, points in curves.scores.items()}
    return _non_empty(
        {
            f"train {curves.loss_label}": curves.train_loss,
            f"validation {curves.loss_label}": curves.validation_loss,
            **scores,
            "learning rate": curves.learning_rate,
        }
    )


def _own_label(name: str) -> str:
    """The label of a score that has a panel for itself."""
    words = name.replace("_", " ")
    return f"{words}, %" if name in PERCENT else words


def _draw_lines(
    axis: "Axes", label: str, series: Mapping[str, Points], lines: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Draw a line for each run; returns the lines by the run's name."""
    style_axis(axis, label)
    drawn = {}
    for name, points in series.items():
        steps, values = zip(*points, strict=True)
        marker = "o" if len(points) <= MAX_MARKED_POINTS else ""
        [drawn[name]] = axis.plot(steps, values, linewidth=1.4, marker=marker, markersize=3, **lines[name])
    if "loss" in label and _has_wide_range(series):
        _make_logarithmic(axis)
    return drawn


def _style_steps(axis: "Axes") -> None:
    axis.set_xlim(left=0)
    axis.set_xlabel("step", color=TEXT_COLOUR)
    axis.xaxis.set_major_formatter(lambda step, _: f"{step:,.0f}")


def _has_wide_range(series: Mapping[str, Points]) -> bool:
    """True if the largest value is more than twice the smallest, and all are above 0."""
    values = [value for points in series.values() for _, value in points]
    return bool(values) and 0 < 2 * min(values) < max(values)


@dataclass(frozen=True, kw_only=True)
class _Panel:
    """One quantity of a figure: its lines by name, their colours, and its share of the height."""

    label: str
    series: dict[str, Points]
    colours: tuple[str, ...]
    height_ratio: int = 3
    logarithmic: bool = False
    dashed: bool = False  # lines after the first are dashed, so that an equal one below is visible


def _panels(curves: Curves) -> list[_Panel]:
    losses = _non_empty({"train": curves.train_loss, "validation": curves.validation_loss})
    rate = _non_empty({"": curves.learning_rate})
    wide_range = _has_wide_range(losses)
    return [
        _Panel(label=curves.loss_label, series=losses, colours=LINE_COLOURS, logarithmic=wide_range),
        *_score_panels(curves),
        _Panel(label="learning rate", series=rate, colours=(TEXT_COLOUR,), height_ratio=1),
    ]


def _score_panels(curves: Curves) -> list[_Panel]:
    """One panel for each scale; no two lines of up to four have the same colour."""
    panels: list[_Panel] = []
    scales = {label: found for label, all_of in curves.score_panels.items() if (found := _non_empty(all_of))}
    used = 2  # those of the losses come last
    for label, series in scales.items():
        start = used % len(LINE_COLOURS)
        panels.append(
            _Panel(
                label=label,
                series=series,
                colours=LINE_COLOURS[start:] + LINE_COLOURS[:start],
                height_ratio=3 if len(scales) == 1 else 2,
                dashed=True,
            )
        )
        used += len(series)
    return panels


def _non_empty(series: Mapping[str, Points]) -> dict[str, Points]:
    return {name: points for name, points in series.items() if points}


def _draw(axis: "Axes", panel: _Panel) -> None:
    """Draw a panel: its name at the top left, a legend with each line's last value at the top right."""
    style_axis(axis, panel.label)
    for number, (name, points) in enumerate(panel.series.items()):
        steps, values = zip(*points, strict=True)
        covers = panel.dashed and number > 0
        axis.plot(
            steps,
            values,
            color=panel.colours[number % len(panel.colours)],
            linewidth=1.6,
            linestyle=(0, (3, 3)) if covers else "solid",
            marker="o" if len(points) <= MAX_MARKED_POINTS else "",
            markersize=2.5 if covers else 4.5 if panel.dashed else 3.5,
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
    """Use a logarithmic axis with plain numbers, far enough apart to be read."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set_yscale("log")
    low, high = axis.get_ylim()
    decades = math.log10(high / low)
    subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if decades < 1.2 else (1.0, 3.0) if decades < 3 else (1.0,)
    axis.yaxis.set_major_locator(LogLocator(subs=subs))
    axis.yaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
