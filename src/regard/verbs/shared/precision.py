"""The precision of a model: float32, bfloat16 on a GPU, or int8 in the linear layers on a CPU."""

from typing import Any

import torch
from torch import nn

from regard import console
from regard.errors import RecipeError
from regard.fast.decoding_step import quantise_model
from regard.fast.int8 import can_int8
from regard.verbs.shared.runtime import Precision


def compute_in(precision: Precision, model: nn.Module, device: torch.device) -> Precision:
    """Give `model` this precision, linear layers int8 only where that is faster; the one it has then.

    Raises:
        RecipeError: this PyTorch, or a device other than a CPU, has no int8; or this device no bfloat16.
    """
    if precision == "float32":
        return precision
    if precision == "bfloat16":
        if device.type != "cuda" or not torch.cuda.is_bf16_supported(including_emulation=False):
            raise RecipeError(
                "precision bfloat16 needs a GPU that computes in it", "leave it out, or try int8 on a CPU"
            )
        model.to(torch.bfloat16)
        return precision
    if device.type != "cpu":
        raise RecipeError("precision int8 needs a CPU", "add --device cpu, or leave it out")
    if not can_int8():
        raise RecipeError(
            "precision int8 needs kernels or a PyTorch with oneDNN", "install a C compiler, or leave it out"
        )
    if not quantise_model(model):
        console.warn(
            "precision int8: this model has no linear layer so large that int8 is faster; it stays float32"
        )
        return "float32"
    return precision


def with_precision(found: dict[str, Any], precision: Precision) -> dict[str, Any]:
    """`found`, which says so where its scores are not those of float32, as `regard score` gives them."""
    return found if precision == "float32" else {**found, "precision": precision}
