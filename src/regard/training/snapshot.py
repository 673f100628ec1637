"""The weights of a checkpoint: as they are used, and what adapters change, to go on training."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from regard.models.adapters import adapters_of, merged
from regard.weights.checkpoint import Checkpoint
from regard.weights.tensors import model_tensors

WEIGHTS = "model.safetensors"  # as they are used: adapters are merged into them
ADAPTERS = "adapters.safetensors"  # of a run with adapters: these, and the weights that they are put on


def weight_files(model: nn.Module) -> dict[str, Mapping[str, Tensor]]:
    """The weights as they are used, so that a checkpoint is a model folder; and what adapters change."""
    own = model_tensors(model)
    if not adapters_of(model):
        return {WEIGHTS: own}
    own = copies(own)
    with merged(model):
        plain = copies(model_tensors(model))
    changed = {
        name: tensor
        for name, tensor in own.items()
        if name not in plain or not torch.equal(tensor, plain[name])
    }
    return {WEIGHTS: plain, ADAPTERS: changed}


def trained_weights(checkpoint: Checkpoint, model: nn.Module) -> dict[str, Tensor]:
    """The weights of `model` as they are trained."""
    weights = checkpoint.read_tensors(WEIGHTS)
    return weights | checkpoint.read_tensors(ADAPTERS) if adapters_of(model) else weights


def copies(tensors: Mapping[str, Tensor], device: str | None = None) -> dict[str, Tensor]:
    return {name: tensor.detach().to(device, copy=True) for name, tensor in tensors.items()}
