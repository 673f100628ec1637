"""The precision that a model computes with: float32, or whole numbers of 8 bits."""

from typing import Any, Literal

import torch
from torch import nn

from regard import console
from regard.errors import RecipeError
from regard.layers.int8 import can_int8, to_int8
from regard.models.straight import round_steps

Precision = Literal["float32", "int8"]


def compute_in(precision: Precision, model: nn.Module, device: torch.device) -> Precision:
    """Have the maps of `model` multiply in this precision, int8 only where that is faster; which it is then.

    Raises:
        RecipeError: there are no products of int8 here.
    """
    if precision == "float32":
        return precision
    if device.type != "cpu":
        raise RecipeError("precision int8 needs a CPU", "add --device cpu, or leave it out")
    if not can_int8():
        raise RecipeError("precision int8 needs a PyTorch with oneDNN", "leave it out: float32 is everywhere")
    if not to_int8(model) + round_steps(model):
        console.warn("precision int8: this model has no map so large that int8 is faster; it stays float32")
        return "float32"
    return precision


def with_precision(found: dict[str, Any], precision: Precision) -> dict[str, Any]:
    """`found`, which says so where its scores are not those of float32, as `regard score` gives them."""
    return found if precision == "float32" else {**found, "precision": precision}
