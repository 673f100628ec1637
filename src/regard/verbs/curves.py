"""The verb `curves`: a run's learning curves, as figures in its folder and as numbers."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from regard import console
from regard.errors import FolderError, MissingExtra
from regard.inspection.curves import Curves, draw_curves, read_curves
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.run_to_read import no_run
from regard.weights.checkpoint import RunFolder

LOSS_UNITS = {  # by task kind
    "classification": "nats per text",
    "images": "nats per image",
    "language_model": "nats per token",
    "masked_language_model": "nats per masked token",
    "nodes": "nats per node",
    "regression": "squared standard deviations",
    "tagging": "nats per word",
    "transcription": "nats per label",
    "translation": "nats per token",
}


@dataclass(frozen=True, kw_only=True)
class DrawnCurves:
    """The curves of a run, and the figures that were written."""

    curves: Curves
    figures: tuple[Path, ...]


@checked
def curves(run: str | Path) -> DrawnCurves:
    """Write `curves.svg` and `curves.png` into a run folder: loss, scores and learning rate over the steps.

    Without matplotlib a note appears instead of figures.

    Args:
        run: a run folder.

    Raises:
        FolderError: `run` is not a run folder, has no measurements yet, or cannot be written to.
    """
    found = run_curves(run)
    return DrawnCurves(curves=found, figures=write_figures(Path(run), found))


def write_figures(run: Path, found: Curves) -> tuple[Path, ...]:
    """Write the curves of a run into its folder; returns the figures, none without matplotlib.

    Raises:
        FolderError: the run folder cannot be written to.
    """
    path = run.expanduser()
    figures = (path / "curves.svg", path / "curves.png")
    for figure in figures:
        try:
            draw_curves(found, figure, title=path.resolve().name)
        except MissingExtra as missing:
            console.note(f"{missing.message}: {missing.hint}")
            return ()
        except OSError as error:
            raise FolderError(
                f"cannot write {figure}: {error.strerror or error}",
                f"write it elsewhere: regard plot curves {run} --out FILE.svg",
            ) from error
    return figures


def run_curves(run: str | Path) -> Curves:
    """The curves of a run.

    Raises:
        FolderError: `run` is not a run folder, or has no measurements yet.
    """
    path = Path(run).expanduser()
    records = RunFolder(path).metrics() if path.is_dir() else []
    found = read_curves(records, loss_unit=_loss_unit(path))
    if not found.train_loss and not found.validation_loss:
        raise no_run(path, "measurements", f"`regard curves {run}` compares them")
    return found


def _loss_unit(run: Path) -> str:
    """The unit of a run's losses by the task of its recipe; a general one if the recipe is unreadable."""
    try:
        task = tomllib.loads(RunFolder(run).recipe() or "task = 0").get("task", {"kind": "translation"})
    except tomllib.TOMLDecodeError:
        task = None
    kind = task.get("kind", "translation") if isinstance(task, dict) else None
    return LOSS_UNITS.get(str(kind), "nats per prediction")
