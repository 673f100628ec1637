"""The precision of a model's linear layers: float32 or int8."""

from typing import Any

import torch
from torch import nn

from regard import console
from regard.errors import RecipeError
from regard.fast.decoding_step import quantise_model
from regard.fast.int8 import can_int8
from regard.verbs.shared.runtime import Precision


def compute_in(precision: Precision, model: nn.Module, device: torch.device) -> Precision:
    """Give the linear layers of `model` this precision, int8 only where that is faster; the one it has then.

    Raises:
        RecipeError: this PyTorch, or a device other than a CPU, has no int8.
    """
    if precision == "float32":
        return precision
    if device.type != "cpu":
        raise RecipeError("precision int8 needs a CPU", "add --device cpu, or leave it out")
    if not can_int8():
        raise RecipeError("precision int8 needs a PyTorch with oneDNN", "leave it out: float32 is everywhere")
    if not quantise_model(model):
        console.warn(
            "precision int8: this model has no linear layer so large that int8 is faster; it stays float32"
        )
        return "float32"
    return precision


def with_precision(found: dict[str, Any], precision: Precision) -> dict[str, Any]:
    """`found`, which says so where its scores are not those of float32, as `regard score` gives them."""
    return found if precision == "float32" else {**found, "precision": precision}
