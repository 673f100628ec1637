"""The weights of the best model of a run, kept in memory until the next save; the mean of the last."""

from collections.abc import Mapping

from torch import Tensor, nn

from regard.training.settings import TrainingSettings
from regard.training.snapshot import WEIGHTS, copies
from regard.weights.average import average_tensors, used_weights
from regard.weights.checkpoint import RunFolder
from regard.weights.tensors import model_tensors


class BestWeights:
    """The weights of the best validation so far, which a save writes to RUN/best.

    Writing them costs as much as ten updates of a small model, which may be validated at every update. So
    they wait for the next save; a run that resumes from an earlier checkpoint computes them again.
    """

    def __init__(self, run: RunFolder, model_files: Mapping[str, bytes]) -> None:
        """`model_files`: the files that make a checkpoint a model folder."""
        self._run, self._model_files = run, model_files
        self._waiting: tuple[int, dict[str, Tensor]] | None = None  # step and weights

    def keep(self, step: int, model: nn.Module) -> None:
        """Keep a copy of these weights; it replaces one that was not written."""
        self._waiting = step, copies(model_tensors(model), "cpu")

    def forget(self) -> None:
        """Drop what was not written."""
        self._waiting = None

    def write(self) -> None:
        """Write what `keep` was given, if it was not written before."""
        if self._waiting is not None:
            self.write_now(*self._waiting)
            self._waiting = None

    def write_now(self, step: int, tensors: Mapping[str, Tensor], *, is_average: bool = False) -> None:
        """Write these weights as the best. `is_average`: they are the mean of the last checkpoints."""
        self._run.write_best({WEIGHTS: tensors, **self._model_files}, step=step, is_average=is_average)


def mean_of_last(
    run: RunFolder, settings: TrainingSettings, last_step: int
) -> tuple[dict[str, Tensor], list[int]]:
    """The mean of the weights of the last `average_last` checkpoints, and their steps.

    Only checkpoints that an uninterrupted run saves too count; others were saved on a signal.
    """
    regular = [
        point
        for point in run.checkpoints()
        if point.step % settings.save_every == 0 or point.step == last_step
    ][: settings.average_last]
    return average_tensors([used_weights(point)[0] for point in regular]), [point.step for point in regular]
