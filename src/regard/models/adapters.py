"""Low-rank adapters (Hu et al. 2022): put on a built model from outside, and merged into it again."""

from collections.abc import Iterator, Sequence
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
from regard.layers.stacked import StackedLinear
from regard.models.graph import GraphTransformer

ADAPTER = "adapter"  # what an adapter is called in the linear layer that it is put on


@dataclass(frozen=True, kw_only=True)
class AdapterSettings:
    """Which linear layers are adapted, and by how much.

    A layer is adapted where its name has one of `targets` in it, in whole words: "feed_forward", "query",
    "encoder.blocks.1". Without targets, all linear layers of all attentions are. What an adapter adds is
    multiplied by `alpha` / `rank`; `dropout` acts on what it reads.
    """

    rank: int = 8
    alpha: float = 16.0
    targets: tuple[str, ...] = ()
    dropout: float = 0.0

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ConfigError(f"the rank of an adapter is 1 or more, not {self.rank}", "8 is usual")
        if not self.alpha > 0:
            raise ConfigError(f"alpha of an adapter is above 0, not {self.alpha}", "twice the rank is usual")
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"dropout = {self.dropout} of an adapter is no share", "0 <= dropout < 1")


class Adapter(nn.Module):
    """What is added to a linear map: alpha / rank * up(down(x)) (equation 3); of stacked maps, to each.

    `down` is drawn as fresh weights usually are and `up` is zero, so that nothing is added at first.
    """

    def __init__(self, linear: nn.Linear, settings: AdapterSettings, generator: torch.Generator) -> None:
        super().__init__()
        self.widths = _widths(linear)
        self.rank, self.scale = settings.rank, settings.alpha / settings.rank
        drawn = torch.empty(settings.rank * len(self.widths), linear.in_features)
        nn.init.uniform_(drawn, -(linear.in_features**-0.5), linear.in_features**-0.5, generator=generator)
        self.down = nn.Parameter(drawn.to(linear.weight))
        self.up = nn.Parameter(linear.weight.new_zeros(linear.out_features, settings.rank))
        self.dropout = nn.Dropout(settings.dropout)
        self.hook: RemovableHandle | None = None

    def forward(self, x: Float[Tensor, "*batch inputs"]) -> Float[Tensor, "*batch outputs"]:
        low = F.linear(self.dropout(x), self.down).split(self.rank, dim=-1)
        parts = [F.linear(part, up) for part, up in zip(low, self.up.split(self.widths), strict=True)]
        return torch.cat(parts, dim=-1) * self.scale

    def matrix(self) -> Float[Tensor, "outputs inputs"]:
        """What it adds to the weight of its linear layer, dropout apart."""
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
    """Adapt linear layers of `model` and freeze all else; the names of the layers. See `AdapterSettings`.

    The model is called as before and gives the same until its adapters are trained.

    Raises:
        ConfigError: a target is in no name, or a layer cannot be adapted.
    """
    settings = AdapterSettings(rank=rank, alpha=alpha, targets=tuple(targets), dropout=dropout)
    if adapters_of(model):
        raise ConfigError("the model has adapters already", "merge them first")
    chosen = _chosen(model, settings.targets)
    for name, linear in chosen.items():
        _refuse(model, name, linear, settings.rank)
    generator = torch.Generator().manual_seed(seed)
    model.requires_grad_(False)
    for linear in chosen.values():
        _put(linear, Adapter(linear, settings, generator))
    return list(chosen)


def merge_lora(model: nn.Module) -> None:
    """Add all adapters to the weights that they are put on: a plain model again, all of it to be trained.

    It gives what it gave with its adapters, up to rounding.
    """
    for linear, adapter in adapters_of(model).values():
        _merge(linear, adapter)
    model.requires_grad_(True)


@contextmanager
def merged(model: nn.Module) -> Iterator[None]:
    """Within, `model` is plain, its adapters merged; afterwards all is as before, to the bit."""
    found = adapters_of(model)
    own = [linear.weight.detach().clone() for linear, _ in found.values()]
    for linear, adapter in found.values():
        _merge(linear, adapter)
    try:
        yield
    finally:
        with torch.no_grad():
            for (linear, adapter), weight in zip(found.values(), own, strict=True):
                linear.weight.copy_(weight)
                _put(linear, adapter)


def adapters_of(model: nn.Module) -> dict[str, tuple[nn.Linear, Adapter]]:
    """By the name of each adapted layer, the layer and its adapter; empty for a plain model."""
    return {
        name: (module, adapter)
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and isinstance(adapter := module._modules.get(ADAPTER), Adapter)
    }


def _put(linear: nn.Linear, adapter: Adapter) -> None:
    linear.add_module(ADAPTER, adapter.train(linear.training))
    adapter.hook = linear.register_forward_hook(_add)


def _add(linear: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
    return output + linear.get_submodule(ADAPTER)(*inputs)


@torch.no_grad()
def _merge(linear: nn.Linear, adapter: Adapter) -> None:
    assert adapter.hook is not None
    linear.weight += adapter.matrix()
    adapter.hook.remove()
    del linear._modules[ADAPTER]


def _chosen(model: nn.Module, targets: Sequence[str]) -> dict[str, nn.Linear]:
    """The linear layers that are meant, by name."""
    linears = {name: module for name, module in model.named_modules() if isinstance(module, nn.Linear)}
    if not targets:
        attentions = [
            f"{n}." for n, module in model.named_modules() if isinstance(module, MultiHeadAttention)
        ]
        chosen = {name for name in linears if name.startswith(tuple(attentions))}
        if not chosen:
            raise ConfigError(
                "the model has no attention to adapt",
                f"name targets, for instance {next(iter(linears), '')!r}",
            )
    else:
        chosen = set()
        for target in targets:
            found = {name for name in linears if f".{target}." in f".{name}."}
            if not found:
                words = {word for name in linears for word in (name, name.rpartition(".")[2])}
                raise ConfigError(f"no linear layer has {target!r} in its name", did_you_mean(target, words))
            chosen |= found
    return {name: linear for name, linear in linears.items() if name in chosen}


def _refuse(model: nn.Module, name: str, linear: nn.Linear, rank: int) -> None:
    """What cannot be adapted, or would change what was not meant."""
    holders = [
        module_name
        for module_name, module in model.named_modules()
        if any(parameter is linear.weight for parameter in module._parameters.values())
    ]
    if len(holders) > 1:
        raise ConfigError(
            f"{name} shares its weight with {next(each for each in holders if each != name)},"
            " which an adapter would change too",
            "leave it out of the targets, or untie the two",
        )
    owner = model.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, GraphAttention) or (isinstance(owner, GraphTransformer) and name == "input"):
        raise ConfigError(
            f"{name} reads sparse features past any adapter", "leave it out of the targets of the adapter"
        )
    smallest = min(linear.in_features, *_widths(linear))
    if rank > smallest:
        raise ConfigError(
            f"the rank of an adapter, {rank}, is more than {name} has, {smallest}", "take a lower rank"
        )


def _widths(linear: nn.Linear) -> tuple[int, ...]:
    """How wide the maps are that the layer holds."""
    return linear.widths if isinstance(linear, StackedLinear) else (linear.out_features,)
