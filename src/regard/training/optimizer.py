"""Adam and AdamW with layer-wise learning rates; the optimiser state as named tensors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from regard.errors import FolderError, RecipeError
from regard.training.numbers import is_asynchronous


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam as in section 5.3 of Vaswani et al. 2017, or AdamW (Loshchilov and Hutter 2019).

    `layer_decay` makes learning rates discriminative (Howard and Ruder 2018, section 3.2): the head has the
    rate of the schedule, and each layer below has the rate of the layer above times `layer_decay`.
    """

    kind: Literal["adam", "adamw"] = "adam"  # the optimiser
    beta1: float = 0.9  # decay of the mean of the gradient
    beta2: float = 0.98  # decay of the mean of its square
    epsilon: float = 1e-9  # added to the denominator of an update
    weight_decay: float = 0.0  # for AdamW, on matrices only, not on biases and norms
    l2: float = 0.0  # for Adam: adds l2 / 2 times the squared norm of all parameters to the loss
    # factor of the rate from each layer to the one below; 1: all layers have the same
    layer_decay: float = 1.0

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
            raise RecipeError(
                "weight_decay needs kind = 'adamw'", "kind = 'adam' has l2, a penalty on squared weights"
            )
        if self.l2 < 0:
            raise RecipeError(f"l2 must be 0 or more, not {self.l2}", "0.0005 is usual on small graphs")
        if self.l2 and self.kind == "adamw":
            raise RecipeError("l2 needs kind = 'adam'", "kind = 'adamw' has weight_decay instead")
        if not 0 < self.layer_decay <= 1:
            raise RecipeError(
                f"layer_decay must be above 0 and at most 1, not {self.layer_decay}",
                "0.8 is usual; 1 turns it off",
            )


def build_optimizer(model: nn.Module, settings: OptimizerSettings) -> torch.optim.Optimizer:
    """The optimiser of the parameters of `model` that require a gradient."""
    depth = dict.fromkeys((name for name, _ in _parameters(model)), 0)
    if settings.layer_decay < 1:
        depth = depths(model)
    groups = []
    for layer in sorted(set(depth.values())):
        here = [parameter for name, parameter in _parameters(model) if depth[name] == layer]
        matrices = [parameter for parameter in here if parameter.ndim > 1]
        vectors = [parameter for parameter in here if parameter.ndim <= 1]
        scale = settings.layer_decay**layer
        groups += [
            {"params": matrices, "weight_decay": settings.weight_decay or settings.l2, "scale": scale},
            {"params": vectors, "weight_decay": settings.l2, "scale": scale},
        ]
    kind = torch.optim.Adam if settings.kind == "adam" else torch.optim.AdamW
    # The trainer sets the learning rate before every update.
    betas = settings.beta1, settings.beta2
    fused = _can_be_fused(model)
    optimizer = kind(groups, lr=0.0, betas=betas, eps=settings.epsilon, fused=fused or None)
    if fused:
        optimizer.register_step_post_hook(_count_versions)
    return optimizer


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
        for _, parameter in _parameters(model)
    )


def _is_whole_on_gpu(parameter: nn.Parameter) -> bool:
    """True for a parameter on a GPU that FSDP has not divided."""
    return is_asynchronous(parameter.device) and not hasattr(parameter, "placements")


def is_fused(optimizer: torch.optim.Optimizer) -> bool:
    """True if the optimiser updates all weights by one operation, which `step_where` needs."""
    return bool(optimizer.defaults.get("fused"))


def step_where(counts: Bool[Tensor, ""], optimizer: torch.optim.Optimizer) -> None:
    """A step if `counts` is True, else none. Its value is not read, so nothing waits for a GPU."""
    # what PyTorch's gradient scaler sets, for the fused update
    vars(optimizer)["found_inf"] = (~counts).float()
    optimizer.step()


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets the learning rate, scaled for each layer."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["scale"]


def depths(model: nn.Module) -> dict[str, int]:
    """The depth of each parameter below the head, by name.

    0: the head and everything after the layers; 1: the last of n layers; n: the first; n + 1: embeddings and
    everything before the layers. Encoder and decoder are counted separately. A tied weight counts under its
    first name.

    Raises:
        RecipeError: the model has no layers.
    """
    stacks = _stacks(model)
    if not stacks:
        raise RecipeError("layer_decay: this model has no list of layers", "leave it out, or set it to 1")
    names = [name for name, _ in model.named_parameters()]
    first_places = {
        stack: next(place for place, name in enumerate(names) if name.startswith(f"{stack}."))
        for stack in stacks
    }
    return {name: _depth(name, place, stacks, first_places) for place, name in enumerate(names)}


def _stacks(model: nn.Module) -> dict[str, int]:
    """The outermost lists of layers: name -> number of layers."""
    stacks: dict[str, int] = {}
    for name, module in model.named_modules():
        inner = name.startswith(tuple(f"{stack}." for stack in stacks))
        if isinstance(module, nn.ModuleList) and not inner and any(True for _ in module.parameters()):
            stacks[name] = len(module)
    return stacks


def _depth(name: str, place: int, stacks: Mapping[str, int], first_places: Mapping[str, int]) -> int:
    for stack, count in stacks.items():
        if name.startswith(f"{stack}."):
            return count - int(name.removeprefix(f"{stack}.").partition(".")[0])
    above, near = name, list[str]()
    while not near:  # in the nearest enclosing module with layers, it comes before or after them
        above = above.rpartition(".")[0]
        near = [stack for stack in stacks if not above or stack.startswith(f"{above}.")]
    return 0 if any(first_places[stack] < place for stack in near) else stacks[near[0]] + 1


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser state as tensors named `parameter/slot`."""
    return {
        f"{name}/{slot}": value
        for name, parameter in _parameters(model)
        for slot, value in optimizer.state.get(parameter, {}).items()
    }


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Restores the state that `optimizer_tensors` returned.

    Raises:
        FolderError: a tensor belongs to no parameter, or has another shape.
    """
    parameters = dict(_parameters(model))
    optimizer.state.clear()  # before the first step the state is empty
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
        device = "cpu" if slot == "step" and not is_fused(optimizer) else parameters[name].device
        optimizer.state[parameters[name]][slot] = value.clone().to(device)


def _parameters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """The trained parameters; a tied one once, under its first name."""
    return ((name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad)
