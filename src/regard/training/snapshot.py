"""The tensors of a checkpoint: weights for use, adapters, the optimiser's state, averaged weights."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from regard.models.adapters import adapters_of, merged
from regard.training.optimizer_state import optimizer_tensors
from regard.weights.average import AVERAGE, UPDATES, MovingAverage
from regard.weights.tensors import model_tensors

WEIGHTS = "model.safetensors"  # the weights for use: adapters are merged
ADAPTERS = "adapters.safetensors"  # of a run with adapters: these, and the unmerged weights of their layers
AVERAGE_ADAPTERS = "average_adapters.safetensors"  # what `ADAPTERS` is, of the moving average
OPTIMIZER = "optimizer.safetensors"
Load = Callable[[str], Mapping[str, Tensor]]  # name of a checkpoint's file -> its tensors


def checkpoint_tensors(
    model: nn.Module, optimizer: torch.optim.Optimizer, average: MovingAverage | None
) -> dict[str, Mapping[str, Tensor]]:
    """The tensors of a checkpoint, by the name of their file."""
    files = {**weight_files(model), OPTIMIZER: optimizer_tensors(model, optimizer)}
    return {**files, **average_files(model, average)} if average else files


def weight_files(model: nn.Module) -> dict[str, Mapping[str, Tensor]]:
    """The weights of a checkpoint, by the name of their file.

    The weights for use are merged, so that the checkpoint is also a model folder. With adapters a second file
    has the tensors that training needs and the first one lacks.
    """
    own = model_tensors(model)
    if not adapters_of(model):
        return {WEIGHTS: own}
    own = copies(own)  # because `merged` changes the weights in place
    with merged(model):
        plain = copies(model_tensors(model))
    changed = {
        name: tensor
        for name, tensor in own.items()
        if name not in plain or not torch.equal(tensor, plain[name])
    }
    return {WEIGHTS: plain, ADAPTERS: changed}


def average_files(model: nn.Module, average: MovingAverage) -> dict[str, Mapping[str, Tensor]]:
    """The moving average of a checkpoint, by the name of its file; merged as in `weight_files`."""
    state = average.tensors()
    if not adapters_of(model):
        return {AVERAGE: state}
    with average.applied(model):
        files = weight_files(model)
    return {AVERAGE: {**files[WEIGHTS], UPDATES: state[UPDATES]}, AVERAGE_ADAPTERS: files[ADAPTERS]}


def average_state(load: Load, model: nn.Module) -> dict[str, Tensor]:
    """The state of the moving average with which training of `model` resumes: unmerged."""
    stored = dict(load(AVERAGE))
    # nothing without adapters, or of a checkpoint of an earlier form
    lacking = model_tensors(model).keys() - stored.keys()
    return {**stored, **load(AVERAGE_ADAPTERS)} if lacking else stored


def trained_weights(load: Load, model: nn.Module) -> dict[str, Tensor]:
    """The weights with which training of `model` resumes: unmerged, and with the adapters."""
    weights = dict(load(WEIGHTS))
    return {**weights, **load(ADAPTERS)} if adapters_of(model) else weights


def copies(tensors: Mapping[str, Tensor], device: str | None = None) -> dict[str, Tensor]:
    """Detached copies of tensors, on another device if one is given."""
    return {name: tensor.detach().to(device, copy=True) for name, tensor in tensors.items()}
