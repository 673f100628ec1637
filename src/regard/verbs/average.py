"""Average: the mean of a run's last checkpoints, as one model."""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import Tensor

from regard import console
from regard.counted import counted
from regard.errors import FolderError, UserError
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.run_to_read import no_run
from regard.verbs.shared.settings import recipe_of
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.training_run.model_card import average_card
from regard.weights.average import WEIGHTS, average_tensors, used_weights
from regard.weights.checkpoint import REFIT, Checkpoint, RunFolder
from regard.weights.folder import CARD, write_folder
from regard.weights.model_folder import model_files_of
from regard.weights.new_folder import refuse_taken


@checked
def average(run: str | Path, *, last: int, out: str | Path) -> Path:
    """Write the mean of the `last` checkpoints of `run` as a model folder (Vaswani et al. 2017, section 6.1).

    If the run keeps a moving average of its weights, this is the mean of the moving averages.

    Args:
        run: a run folder.
        last: how many checkpoints after step 0, counted from the newest.
        out: the model folder to write; new or empty, and no part of a run.

    Raises:
        FolderError: the run has fewer checkpoints, only some of them have a moving average, or `out` exists.
    """
    refuse_taken(Path(out))
    path = Path(run).expanduser()
    found = RunFolder(path).checkpoints() if path.is_dir() else []
    checkpoints = [each for each in found if each.step > 0]  # nothing is learned at step 0
    if not checkpoints:
        raise no_run(path, "checkpoints")
    if not 1 <= last <= len(checkpoints):
        raise FolderError(
            f"{run} has {counted(len(checkpoints), 'checkpoint')}, not {last}",
            f"--last {len(checkpoints)}; training.keep is the number of checkpoints that a run keeps",
        )
    if (path / REFIT).is_dir():
        console.note(
            f"the mean is of the first run, without the validation data; of the second: {path / REFIT}"
        )
    newest = checkpoints[0]
    chosen = checkpoints[:last]
    weights, moving = _mean(chosen, str(run))
    steps = sorted(checkpoint.step for checkpoint in chosen)
    parameters = sum(math.prod(tensor.shape) for tensor in weights.values())
    card = average_card(path.resolve().name, _recipe_of(newest), parameters, steps, moving=moving)
    files = {**model_files_of(newest), WEIGHTS: weights, CARD: card.encode()}
    if moving:
        console.note(f"the mean of the moving averages at steps {', '.join(map(str, steps))}")
    write_folder(Path(out), files, manifest_extra={"average_of_steps": steps, "moving_average": moving})
    return Path(out)


def _recipe_of(checkpoint: Checkpoint) -> Recipe | None:
    """The recipe of a checkpoint; None if it has none, as with `fit`."""
    try:
        return recipe_of(checkpoint.path).recipe
    except UserError:
        return None


def _mean(checkpoints: Sequence[Checkpoint], run: str) -> tuple[dict[str, Tensor], bool]:
    """The mean of the checkpoints' weights, and True if they are moving averages."""
    are_moving: list[bool] = []

    def each() -> Iterator[dict[str, Tensor]]:
        for checkpoint in checkpoints:
            weights, moving = used_weights(checkpoint)
            are_moving.append(moving)
            yield weights

    mean = average_tensors(each())
    if len(set(are_moving)) > 1:
        raise FolderError(
            f"{run}: only {sum(are_moving)} of the last {len(are_moving)} checkpoints have a moving average",
            f"--last {are_moving.index(not are_moving[0])}: training.moving_average was changed in between",
        )
    return mean, are_moving[0]
