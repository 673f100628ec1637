"""Average: one model whose weights are the mean of a run's last checkpoints."""

from pathlib import Path

from regard.errors import FolderError
from regard.verbs.arguments import checked
from regard.weights.average import average_tensors
from regard.weights.checkpoint import RunFolder
from regard.weights.folder import write_folder
from regard.weights.model_folder import model_files_of

WEIGHTS = "model.safetensors"


@checked
def average(run: str | Path, *, last: int, out: str | Path) -> Path:
    """Write the mean of the `last` checkpoints of `run` as a model folder (Vaswani et al. 2017, section 6.1).

    Args:
        run: a run folder.
        last: how many checkpoints, the newest first.
        out: the model folder to write.

    Raises:
        FolderError: there are not as many, or they do not fit together.
    """
    path = Path(run).expanduser()
    checkpoints = RunFolder(path).checkpoints() if path.is_dir() else []
    if not checkpoints:
        raise FolderError(
            f"{run} has no checkpoint", "name a run folder, as `regard train` leaves it in runs/"
        )
    if not 1 <= last <= len(checkpoints):
        raise FolderError(
            f"{run} has {len(checkpoints)} checkpoints, not {last}",
            f"--last {len(checkpoints)}; training.keep says how many a run keeps",
        )
    newest = checkpoints[0]
    weights = average_tensors(checkpoint.read_tensors(WEIGHTS) for checkpoint in checkpoints[:last])
    files = {**model_files_of(newest), WEIGHTS: weights}
    steps = [checkpoint.step for checkpoint in checkpoints[:last]]
    write_folder(Path(out), files, manifest_extra={"average_of_steps": sorted(steps)})
    return Path(out)
