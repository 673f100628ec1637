"""LoRA: low-rank adapters (Hu et al. 2022) that are added to a built model and can be merged into it."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from regard.errors import ConfigError, did_you_mean
from regard.layers.attention import MultiHeadAttention
from regard.layers.graph import GraphAttention
from regard.layers.softcapped import SoftcappedLinear
from regard.layers.stacked import StackedLinear
from regard.models.graph import GraphTransformer
from regard.recipe import check_types

ADAPTER_NAME = "adapter"  # the name of an adapter in its linear layer


@dataclass(frozen=True, kw_only=True)
class AdapterSettings:
    """The linear layers to adapt, and the rank of their adapters (LoRA, Hu et al. 2022).

    An adapter is the product of two matrices of rank `rank`. Its output is multiplied by `alpha` / `rank`;
    `dropout` acts on its input. A layer is adapted if its name contains one of `targets` as whole words:
    "feed_forward", "query", "encoder.blocks.1". Without targets, all linear layers of all attentions are.
    """

    rank: int = 8  # of the product that an adapter adds to a weight
    alpha: float = 16.0
    targets: tuple[str, ...] = ()
    dropout: float = 0.0  # of the input of an adapter

    def __post_init__(self) -> None:
        check_types(self, kind=ConfigError)
        if self.rank < 1:
            raise ConfigError(f"the rank of an adapter is 1 or more, not {self.rank}", "8 is usual")
        if not self.alpha > 0:
            raise ConfigError(f"alpha of an adapter is above 0, not {self.alpha}", "twice the rank is usual")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout = {self.dropout} of an adapter is out of range", "0 <= dropout < 1")


class Adapter(nn.Module):
    """An adapter: adds alpha / rank * up(down(x)) to a linear layer's output (equation 3).

    A layer that stacks several matrices has one adapter for each of them. `down` has PyTorch's usual
    initialisation and `up` is zero, so that the model is unchanged at first.
    """

    def __init__(self, linear: nn.Linear, settings: AdapterSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.widths = _widths(linear)
        self.rank, self.scale = settings.rank, settings.alpha / settings.rank
        initial = torch.empty(settings.rank * len(self.widths), linear.in_features)
        nn.init.uniform_(initial, -(linear.in_features**-0.5), linear.in_features**-0.5, generator=generator)
        self.down = nn.Parameter(initial.to(linear.weight))
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, settings.rank))
        self.dropout = nn.Dropout(settings.dropout)
        self.hook: RemovableHandle | None = None

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        low = F.linear(self.dropout(x), self.down).split(self.rank, dim=-1)
        parts = [F.linear(part, up) for part, up in zip(low, self.up.split(self.widths), strict=True)]
        return torch.cat(parts, dim=-1) * self.scale

    def matrix(self) -> Float[Tensor, "outputs inputs"]:
        """The matrix that merging adds to the weight of the linear layer."""
        pairs = zip(self.up.split(self.widths), self.down.split(self.rank), strict=True)
        return torch.cat([up @ down for up, down in pairs]) * self.scale


def add_lora(
    model: nn.Module,
    *,
    rank: int = 8,
    alpha: float = 16.0,
    targets: Sequence[str] = (),
    dropout: float = 0.0,
    seed: int = 0,
) -> list[str]:
    """Add adapters to linear layers of `model`, freeze everything else, and return the layers' names.

    Arguments are those of `AdapterSettings`. The model's interface stays the same, and so do its outputs
    until the adapters are trained.

    Raises:
        ConfigError: no layer matches a target, or a layer cannot be adapted.
    """
    settings = AdapterSettings(rank=rank, alpha=alpha, targets=tuple(targets), dropout=dropout)
    if adapters_of(model):
        raise ConfigError("the model already has adapters", "merge them first")
    targeted = _targeted_layers(model, settings.targets)
    for name, linear in targeted.items():
        _check_adaptable(model, name, linear, settings.rank)
    generator = torch.Generator().manual_seed(seed)
    model.requires_grad_(False)
    for linear in targeted.values():
        _attach(linear, Adapter(linear, settings, generator))
    return list(targeted)


def merge_lora(model: nn.Module) -> None:
    """Merge all adapters into their layers' weights and unfreeze the model, which has no adapters then.

    Its outputs stay the same up to rounding.
    """
    for linear, adapter in adapters_of(model).values():
        _merge(linear, adapter)
    model.requires_grad_(True)


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """A context in which the adapters of `model` are merged; afterwards it is restored to the bit."""
    found = adapters_of(model)
    weights = [linear.weight.detach().clone() for linear, _ in found.values()]
    for linear, adapter in found.values():
        _merge(linear, adapter)
    try:
        yield
    finally:
        with torch.no_grad():
            for (linear, adapter), weight in zip(found.values(), weights, strict=True):
                linear.weight.copy_(weight)
                _attach(linear, adapter)


def adapters_of(model: nn.Module) -> dict[str, tuple[nn.Linear, Adapter]]:
    """The adapted layers by name, each with its adapter; empty if the model has none."""
    return {
        name: (module, adapter)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and isinstance(adapter := module._modules.get(ADAPTER_NAME), Adapter)
    }


def _attach(linear: nn.Linear, adapter: Adapter) -> None:
    linear.add_module(ADAPTER_NAME, adapter.train(linear.training))
    adapter.hook = linear.register_forward_hook(_adapter_hook)


def _adapter_hook(linear: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output + linear.get_submodule(ADAPTER_NAME)(*inputs)


@torch.no_grad()
def _merge(linear: nn.Linear, adapter: Adapter) -> None:
    assert adapter.hook is not None
    linear.weight += adapter.matrix()
    adapter.hook.remove()
    del linear._modules[ADAPTER_NAME]


def _targeted_layers(model: nn.Module, targets: Sequence[str]) -> dict[str, nn.Linear]:
    """The linear layers that `targets` name, or those of all attentions, by name."""
    linears = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    if not targets:
        attentions = [
            f"{n}." for n, module in model.named_modules() if isinstance(module, MultiHeadAttention)
        ]
        targeted = {name for name in linears if name.startswith(tuple(attentions))}
        if not targeted:
            raise ConfigError(
                "the model has no attention to adapt",
                f"name targets, for instance {next(iter(linears), '')!r}",
            )
    else:
        targeted = set()
        for target in targets:
            found = {name for name in linears if f".{target}." in f".{name}."}
            if not found:
                raise ConfigError(
                    f"no linear layer has {target!r} in its name", _possible_targets(target, linears)
                )
            targeted |= found
    return {name: linear for name, linear in linears.items() if name in targeted}


def _possible_targets(target: str, linears: Iterable[str]) -> str:
    """A hint: the nearest name, and the last words of all names, each of which is a target."""
    names = [*linears]
    words = dict.fromkeys(name.rpartition(".")[2] for name in names)
    near = did_you_mean(target, {*names, *words})
    question = f"{near} " if near.startswith("did you mean") else ""
    return f"{question}possible: {', '.join(words)}, and whole names, such as {names[0]}"


def _check_adaptable(model: nn.Module, name: str, linear: nn.Linear, rank: int) -> None:
    """Raise a ConfigError if a layer cannot be adapted, or shares its weight with another module."""
    modules_with_weight = [
        module_name
        for module_name, module in model.named_modules()
        if any(parameter is linear.weight for parameter in module._parameters.values())
    ]
    if len(modules_with_weight) > 1:
        raise ConfigError(
            f"{name} shares its weight with {next(each for each in modules_with_weight if each != name)},"
            " which an adapter would change too",
            "leave it out of the targets, or untie the two",
        )
    owner = model.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, GraphAttention) or (isinstance(owner, GraphTransformer) and name == "input"):
        raise ConfigError(
            f"{name} reads sparse features, which an adapter does not support", "leave it out of the targets"
        )
    if isinstance(linear, SoftcappedLinear):
        raise ConfigError(
            f"{name} is soft-capped: an adapter would be added after the cap", "leave it out of the targets"
        )
    max_rank = min(linear.in_features, *_widths(linear))
    if rank > max_rank:
        raise ConfigError(
            f"the rank of an adapter, {rank}, is more than that of {name}, {max_rank}", "choose a lower rank"
        )


def _widths(linear: nn.Linear) -> tuple[int, ...]:
    """The output widths of the matrices in a layer; one if it stacks none."""
    return linear.widths if isinstance(linear, StackedLinear) else (linear.out_features,)
