"""The optimiser of a model: Adam, AdamW or a registered one, with layer-wise learning rates."""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from regard.errors import RecipeError
from regard.recipe import check_types
from regard.registry import refuse_unwritable_options
from regard.training.layer_depths import depths
from regard.training.numbers import is_asynchronous
from regard.training.registered_optimizers import OPTIMIZERS, Groups, is_own, registered_optimizer
from regard.training.trainable import trained_parameters


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam as in section 5.3 of Vaswani et al. 2017, AdamW (Loshchilov and Hutter 2019) or a registered one.

    `layer_decay` makes learning rates discriminative (Howard and Ruder 2018, section 3.2): the head has the
    rate of the schedule, and each layer below has the rate of the layer above times `layer_decay`.
    """

    kind: str = "adam"  # adam, adamw, or a registered one: see `register_optimizer`
    beta1: float = 0.9  # decay of the mean of the gradient
    beta2: float = 0.98  # decay of the mean of its square
    epsilon: float = 1e-9  # added to the denominator of an update
    weight_decay: float = 0.0  # not for Adam; on matrices only, not on biases and norms
    l2: float = 0.0  # for Adam: adds l2 / 2 times the squared norm of all parameters to the loss
    options: dict[str, Any] = field(default_factory=dict, hash=False)  # arguments of a registered one
    # factor of the rate from each layer to the one below; 1: all layers have the same
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        check_types(self)
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
            raise RecipeError(
                "weight_decay needs kind = 'adamw'", "kind = 'adam' has l2, a penalty on squared weights"
            )
        if self.l2 < 0:
            raise RecipeError(f"l2 must be 0 or more, not {self.l2}", "0.0005 is usual on small graphs")
        if self.l2 and self.kind != "adam":
            raise RecipeError("l2 needs kind = 'adam'", f"kind = {self.kind!r} has weight_decay instead")
        self._refuse_settings_of_others()
        if not 0 < self.layer_decay <= 1:
            raise RecipeError(
                f"layer_decay must be above 0 and at most 1, not {self.layer_decay}",
                "0.8 is usual; 1 turns it off",
            )

    def _refuse_settings_of_others(self) -> None:
        """Raise a RecipeError for what only regard's own optimisers have, or only registered ones."""
        refuse_unwritable_options(self.options, "options", RecipeError)
        if self.kind in OPTIMIZERS.own:
            if self.options:
                raise RecipeError(
                    f"options have no effect with kind = {self.kind!r}",
                    "leave them out; they are the arguments of a registered optimiser",
                )
            return
        for name in ("beta1", "beta2", "epsilon"):
            value = getattr(self, name)
            if value != getattr(OptimizerSettings, name):
                raise RecipeError(
                    f"{name} = {value} has no effect with kind = {self.kind!r}",
                    "leave it out; arguments of a registered optimiser are in [training.optimizer.options]",
                )


def build_optimizer(model: nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer:
    """The optimiser of the parameters of `model` that require a gradient.

    Raises:
        RecipeError: no optimiser is registered as `settings.kind`, or it cannot be used.
    """
    groups = _groups(model, settings)
    if settings.kind not in OPTIMIZERS.own:
        optimizer = registered_optimizer(settings.kind, groups, settings.options)
    else:
        betas, fused = (settings.beta1, settings.beta2), _can_be_fused(model)
        # The trainer sets the learning rate before every update.
        optimizer = OPTIMIZERS.own[settings.kind](
            groups, lr=0.0, betas=betas, eps=settings.epsilon, fused=fused or None
        )
    if optimizer.defaults.get("fused"):
        optimizer.register_step_post_hook(_count_versions)
    return optimizer


def _groups(model: nn.Module, settings: OptimizerSettings) -> Groups:
    """The weights by layer, if layers have rates of their own, and matrices apart from biases and norms."""
    weights = dict(trained_parameters(model))
    depth = dict.fromkeys(weights, 0)
    if settings.layer_decay < 1:
        depth = depths(model)
    groups: Groups = []
    for layer in sorted({depth[name] for name in weights}):
        here = [name for name in weights if depth[name] == layer]
        matrices = [name for name in here if weights[name].ndim > 1]
        vectors = [name for name in here if weights[name].ndim <= 1]
        for names, decay in ((matrices, settings.weight_decay or settings.l2), (vectors, settings.l2)):
            groups.append(
                {
                    "params": [weights[name] for name in names],
                    "names": names,
                    "weight_decay": decay,
                    "scale": settings.layer_decay**layer,
                }
            )
    return groups


def _count_versions(optimizer: torch.optim.Optimizer, *_: object) -> None:
    """Marks the weights as changed, which PyTorch 2.13's fused step does not do.

    Caches that are computed from weights, such as the packed weights of fast decoding, depend on the version.
    """
    torch.autograd.graph.increment_version(
        [weight for group in optimizer.param_groups for weight in group["params"]]
    )


def _can_be_fused(model: nn.Module) -> bool:
    """True if PyTorch has a fused update for this model.

    On a GPU it can also leave out an update without the processor's knowledge (`step_where`).
    """
    # on a CPU 5.5 M parameters take 13 ms, not 50
    return all(
        ((type(parameter) is nn.Parameter and parameter.device.type == "cpu") or _is_whole_on_gpu(parameter))
        and parameter.dtype in (torch.float32, torch.float64)
        for _, parameter in trained_parameters(model)
    )


def _is_whole_on_gpu(parameter: nn.Parameter) -> bool:
    """True for a parameter on a GPU that FSDP has not divided."""
    return is_asynchronous(parameter.device) and not hasattr(parameter, "placements")


def is_fused(optimizer: torch.optim.Optimizer) -> bool:
    """True if the optimiser updates all weights by one operation, which `step_where` needs."""
    return is_own(optimizer) and bool(optimizer.defaults.get("fused"))


def step_where(counts: Bool[Tensor, ""], optimizer: torch.optim.Optimizer) -> None:
    """A step if `counts` is True, else none. Its value is not read, so nothing waits for a GPU."""
    # what PyTorch's gradient scaler sets, for the fused update
    vars(optimizer)["found_inf"] = (~counts).float()
    optimizer.step()


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate, scaled for each layer."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["scale"]
