"""The depth of each weight below the head of a model, for layer-wise learning rates."""

from collections.abc import Mapping

from torch import nn

from regard.errors import RecipeError


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
