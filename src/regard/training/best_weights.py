"""The weights of the best model of a run, kept in memory until the next save; the mean of the last."""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial

from torch import Tensor, nn

from regard.training.run_writer import Parts, RunWriter
from regard.training.settings import TrainingSettings
from regard.training.snapshot import WEIGHTS
from regard.weights.average import average_tensors, used_weights
from regard.weights.checkpoint import Checkpoint, RunFolder
from regard.weights.folder import AllFiles, WriteBeside
from regard.weights.tensors import model_tensors


class BestWeights:
    """The weights of the best validation so far, which a save writes to RUN/best.

    Writing them costs as much as ten updates of a small model, which may be validated at every update. So
    they wait for the next save; a run that resumes from an earlier checkpoint computes them again. All
    processes call the same methods; each keeps what it saves.
    """

    def __init__(
        self, writer: RunWriter, model_files: Mapping[str, bytes], *, learned_validation: bool
    ) -> None:
        """`model_files`: the files that make a checkpoint a model folder.

        `learned_validation`: the training data have the validation data among them.
        """
        self._writer, self._model_files = writer, model_files
        self._learned_validation = learned_validation
        self._waiting: tuple[int, Parts] | None = None  # step and weights

    def keep(self, step: int, model: nn.Module) -> None:
        """Keep a copy of these weights; it replaces one that was not written."""
        parts = self._writer.parts(model_tensors(model))
        self._waiting = (
            step,
            {
                name: dataclasses.replace(part, tensor=part.tensor.to("cpu", copy=True))
                for name, part in parts.items()
            },
        )

    def forget(self) -> None:
        """Drop what was not written."""
        self._waiting = None

    def write(self) -> None:
        """Write what `keep` was given, if it was not written before."""
        if self._waiting is not None:
            self._write(*self._waiting)
            self._waiting = None

    def write_average(self, step: int, model: nn.Module) -> None:
        """Write these weights, which are the mean of the last checkpoints, as the best."""
        self._write(step, self._writer.parts(model_tensors(model)), is_average=True)

    def _write(self, step: int, parts: Parts, *, is_average: bool = False) -> None:
        def write(files: AllFiles, beside: WriteBeside | None) -> None:
            self._writer.run.write_best(
                files,
                step=step,
                is_average=is_average,
                learned_validation=self._learned_validation,
                beside=beside,
            )

        self._writer.write(write, self._model_files, {WEIGHTS: parts})


def mean_of_last(
    run: RunFolder,
    settings: TrainingSettings,
    last_step: int,
    load: Callable[[Checkpoint, str], Mapping[str, Tensor]],
) -> tuple[dict[str, Tensor], list[int]]:
    """The mean of the weights of the last `average_last` checkpoints, and their steps.

    Only checkpoints that an uninterrupted run saves too count, and not step 0; others were saved on a
    signal. `load` reads the tensors of a file of a checkpoint.
    """
    regular = [
        point
        for point in run.checkpoints()
        if point.step > 0 and (point.step % settings.save_every == 0 or point.step == last_step)
    ][: settings.average_last]
    each = (used_weights(point, partial(load, point))[0] for point in regular)
    return average_tensors(each), [point.step for point in regular]
