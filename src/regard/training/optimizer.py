"""Adam and AdamW, and their state as named tensors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.errors import FolderError, RecipeError


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam as in section 5.3 of Vaswani et al. 2017, or AdamW (Loshchilov and Hutter 2019)."""

    kind: Literal["adam", "adamw"] = "adam"
    beta1: float = 0.9
    beta2: float = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0  # AdamW decays matrices only: no biases, no norms

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise RecipeError(
                    f"{name} must lie in [0, 1), not {getattr(self, name)}", "0.9 and 0.98 are usual"
                )
        if self.epsilon <= 0:
            raise RecipeError(f"epsilon must be above 0, not {self.epsilon}", "1e-9 is the paper's")
        if self.weight_decay < 0:
            raise RecipeError(f"weight_decay must be 0 or more, not {self.weight_decay}", "0.01 is usual")
        if self.weight_decay and self.kind == "adam":
            raise RecipeError("weight_decay needs kind = 'adamw'", "Adam's own decay is not what one wants")


def build_optimizer(model: nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim > 1]
    vectors = [p for p in model.parameters() if p.requires_grad and p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    kind = torch.optim.Adam if settings.kind == "adam" else torch.optim.AdamW
    # The rate is a schedule's matter: the trainer sets it before every update.
    return kind(groups, lr=0.0, betas=(settings.beta1, settings.beta2), eps=settings.epsilon)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's state, each tensor named `parameter/slot`."""
    return {
        f"{name}/{slot}": value
        for name, parameter in _parameters(model)
        for slot, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Put back what `optimizer_tensors` gave.

    Raises:
        FolderError: a tensor belongs to no parameter, or has another shape.
    """
    parameters = dict(_parameters(model))
    for full_name, value in tensors.items():
        name, _, slot = full_name.rpartition("/")
        if name not in parameters:
            raise FolderError(
                f"optimizer state for {name!r}, which the model lacks", "resume with the same recipe"
            )
        if value.ndim and value.shape != parameters[name].shape:
            raise FolderError(
                f"optimizer state of {name} is {tuple(value.shape)}, not {tuple(parameters[name].shape)}",
                "resume with the same recipe",
            )
        device = "cpu" if slot == "step" else parameters[name].device
        optimizer.state[parameters[name]][slot] = value.clone().to(device)


def _parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Trained parameters; a tied one once, under its first name."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
