"""Checkpoints of a training run: all that a resumed run needs, saved and restored to the same bits."""

import json
from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from regard.distributed.distributed_model import DistributedModel
from regard.training.optimizer_state import optimizer_files, restore_optimizer
from regard.training.run_writer import RunWriter
from regard.training.settings import TrainingSettings
from regard.training.snapshot import OPTIMIZER, average_state, checkpoint_tensors, trained_weights
from regard.training.state import TrainingState
from regard.weights.average import MovingAverage
from regard.weights.checkpoint import Checkpoint
from regard.weights.folder import AllFiles, WriteBeside
from regard.weights.tensors import restore_model


class Checkpoints:
    """Checkpoints of a model, its optimiser and its moving average. All processes call the same methods.

    Args:
        model_files: the files that make a checkpoint a model folder.
        settings: which checkpoints are kept.
    """

    def __init__(
        self,
        writer: RunWriter,
        distributed: DistributedModel,
        optimizer: torch.optim.Optimizer,
        average: MovingAverage | None,
        model_files: Mapping[str, bytes],
        settings: TrainingSettings,
    ) -> None:
        self._writer, self._run = writer, writer.run
        self._distributed, self._group, self._model = distributed, distributed.group, distributed.model
        self._optimizer, self._average = optimizer, average
        self._model_files, self._settings = model_files, settings

    def save(self, state: TrainingState, *, also_kept: int | None) -> None:
        """Writes a checkpoint, and removes old ones, except for that of the step `also_kept`."""
        settings = self._settings
        files = {
            **self._model_files,
            **optimizer_files(self._model, self._optimizer),
            "state.json": json.dumps(state.to_dict(), indent=1, sort_keys=True).encode(),
        }
        tensors = checkpoint_tensors(self._model, self._optimizer, self._average)
        parts = {file: self._writer.parts(each) for file, each in tensors.items()}

        def write(files: AllFiles, beside: WriteBeside | None) -> None:
            self._run.save(state.step, files, beside=beside)
            self._run.prune(settings.kept_checkpoints, every=settings.save_every, good=also_kept)

        self._writer.write(write, files, parts)
        self._group.barrier()

    def load(self, checkpoint: Checkpoint, file: str) -> Mapping[str, Tensor]:
        """The tensors of a file of a checkpoint; if the model is sharded, this process's rows of them."""
        return self._distributed.load(checkpoint.open_tensors(file))

    def restore(self, checkpoint: Checkpoint) -> TrainingState:
        """Restores weights, optimiser and moving average; returns the state of the run at `checkpoint`."""
        load = partial(self.load, checkpoint)
        restore_model(self._model, trained_weights(load, self._model))
        restore_optimizer(self._model, self._optimizer, load(OPTIMIZER), checkpoint.read_json)
        if self._average:
            self._average.restore(average_state(load, self._model))
        return TrainingState.from_dict(checkpoint.read_json("state.json"))

    def newest(self, *, until: int) -> Checkpoint | None:
        """The newest checkpoint up to the step `until`, the same in all processes."""
        points = self._run.checkpoints() if self._group.is_first else []
        newest = next((point.step for point in points if point.step <= until), None)
        newest = self._group.broadcast(newest)
        return next((point for point in self._run.checkpoints() if point.step == newest), None)
