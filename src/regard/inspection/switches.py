"""Switch parts of a model off, from outside: heads, blocks, sub-layers, source tokens.

It is done by hooks and in the `attend` of attentions, and taken back afterwards; it works in
decoding too, whose fast step (see fast/decoding_step.py) makes way for whoever listens. What is off:

- a head: its mix of the values is zero, so it adds nothing before the output projection (Michel et al. 2019;
  a mean over data would be another choice, which needs data);
- a block: what enters it leaves it; a sub-layer: the residual stream goes on without it, through the norm
  that follows where the norm stands behind (post-norm);
- a token: nobody may look at it, itself neither, and no pooling counts it. A recurrent encoder passes it
  over. A decoder that reads the token still knows it at that position, whose stream begins with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from regard.errors import ConfigError, did_you_mean
from regard.inspection.passes import AttentionSite, places
from regard.layers.attention import MultiHeadAttention
from regard.layers.block import DecoderBlock, EncoderBlock, PostNorm, Residual
from regard.layers.cache import KeyValue
from regard.layers.recurrent import SourceAttention
from regard.models.encoder_only import EncoderOnly
from regard.models.heads import PooledHead
from regard.models.model import Model
from regard.models.recurrent import Recurrent
from regard.models.vision import VisionTransformer

Attend = Callable[..., Tensor]  # with the signature that the attention's own has
SUBLAYERS = ("self_attention", "cross_attention", "feed_forward")


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """What is off. Nothing, unless told."""

    heads: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by the name of their attention
    layers: Sequence[str] = ()  # names of blocks, or of sub-layers of blocks: see `layer_names`
    tokens: Sequence[int] = ()  # positions in the source; where there is none in the text, or in what is read


def layer_names(model: Model) -> list[str]:
    """The blocks and sub-layers that can be switched off, in the order in which data walks through them."""
    names = []
    for name, module in model.named_modules():
        if isinstance(module, EncoderBlock | DecoderBlock):
            names.append(name)
            names += [f"{name}.{part}" for part in SUBLAYERS if hasattr(module, part)]
    return names


@contextmanager
def ablated(model: Model, *ablations: Ablation) -> Iterator[None]:
    """Inside the `with` the model works without these parts.

    One ablation is for all rows of a batch; of several each is for one row.

    Raises:
        ConfigError: the model has no such head, layer or token.
    """
    _refuse_unknown(model, ablations)
    with ExitStack() as undo:
        for place in places(model):
            off = [each.heads.get(place.name, ()) for each in ablations]
            if any(off):
                undo.enter_context(_without_heads(_at(model, place), _rows(off, place.num_heads)))
        for name in layer_names(model):
            off = [name in each.layers for each in ablations]
            if any(off):
                undo.enter_context(_without_layer(model, name, torch.tensor(off, device=model.device)))
        if any(each.tokens for each in ablations):
            undo.enter_context(_without_tokens(model, [each.tokens for each in ablations]))
        yield


def _refuse_unknown(model: Model, ablations: Sequence[Ablation]) -> None:
    heads = {place.name: place.num_heads for place in places(model)}
    layers = layer_names(model)
    for each in ablations:
        for name, chosen in each.heads.items():
            if name not in heads:
                raise ConfigError(f"the model has no attention {name!r}", did_you_mean(name, heads))
            for head in chosen:
                if not 0 <= head < heads[name]:
                    raise ConfigError(f"{name} has no head {head}", f"heads go from 0 to {heads[name] - 1}")
        for name in each.layers:
            if name not in layers:
                hint = did_you_mean(name, layers) if layers else "only Transformers have such layers"
                raise ConfigError(f"no layer {name!r} can be switched off in this model", hint)
        if any(position < 0 for position in each.tokens):
            raise ConfigError(f"no token stands at {min(each.tokens)}", "positions are counted from 0")


def _at(model: Model, place: AttentionSite) -> MultiHeadAttention | SourceAttention:
    module = model.get_submodule(place.name)
    assert isinstance(module, MultiHeadAttention | SourceAttention)
    return module


def _rows(off: Sequence[Sequence[int]], count: int) -> Bool[Tensor, "rows {count}"]:
    """True where something stays on."""
    on = torch.ones(len(off), count, dtype=torch.bool)
    for row, places_off in enumerate(off):
        on[row, list(places_off)] = False
    return on


def _for_batch(of_rows: Tensor, batch_size: int) -> Tensor:
    """One row is for all. A recurrent encoder fills its batch up with the first rows again."""
    if len(of_rows) in (1, batch_size):
        return of_rows
    return of_rows[torch.arange(batch_size, device=of_rows.device) % len(of_rows)]


@contextmanager
def _without_heads(
    module: MultiHeadAttention | SourceAttention, on: Bool[Tensor, "rows heads"]
) -> Iterator[None]:
    usual: Attend = module.attend
    module.attend = _silencing(usual, on, of_states=isinstance(module, SourceAttention))
    try:
        yield
    finally:
        module.attend = usual


def _silencing(usual: Attend, on: Bool[Tensor, "rows heads"], *, of_states: bool) -> Attend:
    """`usual`, with zeros from the heads that are off; an attention of states has one, and no axis of it."""

    def attend(*given: Any) -> Tensor:
        mixed = usual(*given)
        stays = _for_batch(on, len(mixed)).to(mixed.device)
        return mixed.where(stays[:, :, None] if of_states else stays[:, :, None, None], 0.0)

    return attend


@contextmanager
def _without_layer(model: Model, name: str, off: Bool[Tensor, " rows"]) -> Iterator[None]:
    above, _, last = name.rpartition(".")
    whole = last not in SUBLAYERS
    module = model.get_submodule(name if whole else f"{above}.around_{last}")

    def skip(module: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        without = given[0] if whole else _passed_by(module, given[0])
        return without.where(_for_batch(off, len(output))[:, None, None], output)

    hook = module.register_forward_hook(skip)
    try:
        yield
    finally:
        hook.remove()


def _passed_by(around: nn.Module, x: Tensor) -> Tensor:
    """What stands around a sub-layer gives this where the sub-layer gives nothing."""
    assert isinstance(around, Residual)
    return around.norm(x) if isinstance(around, PostNorm) else x


@contextmanager
def _without_tokens(model: Model, off: Sequence[Sequence[int]]) -> Iterator[None]:
    seen = _rows(off, max(max(positions, default=-1) for positions in off) + 1).to(model.device)
    columns = "source" if any(place.columns == "source" for place in places(model)) else None
    with ExitStack() as undo:
        for place in places(model):
            if columns is None or place.columns == columns:
                hook = _hidden_from(seen, _at(model, place))
                undo.callback(hook.remove)
        if isinstance(model, Recurrent):
            undo.callback(model.encoder.register_forward_pre_hook(_passing_over(seen)).remove)
        if isinstance(model, EncoderOnly) and (head := _pooler(model)) is not None:
            undo.callback(head.register_forward_pre_hook(_not_pooling(seen)).remove)
        if isinstance(model, VisionTransformer) and model.class_token is None:
            undo.callback(model.norm.register_forward_hook(_not_averaged(seen)).remove)
        yield


def _hidden_from(seen: Tensor, module: MultiHeadAttention | SourceAttention) -> Any:
    """A hook that hides what is not `seen` from this attention."""
    if isinstance(module, SourceAttention):  # query, keys, memory, mask

        def of_states(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
            query, keys, memory, mask = given
            visible = _for_batch(_window(seen, 0, keys.size(1)), len(query))[:, None]
            return query, keys, memory, mask & visible

        return module.register_forward_pre_hook(of_states)

    def of_heads(
        _: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        x, memory, *mask = given
        new_len = memory.key.size(2) if isinstance(memory, KeyValue) else memory.size(1)
        cache = named.get("cache")
        start, held = (0, 0) if cache is None else (cache.length - cache.held, cache.held)
        visible = _for_batch(_window(seen, start, held + new_len), len(x))[:, None, None]
        usual = mask[0] if mask else named.pop("mask", None)
        return (x, memory, visible if usual is None else usual & visible), named

    return module.register_forward_pre_hook(of_heads, with_kwargs=True)


def _window(seen: Bool[Tensor, "rows len"], start: int, length: int) -> Bool[Tensor, "rows {length}"]:
    """Whether each of `length` positions from `start` on is seen; those beyond all that is told are."""
    told = seen[:, start : start + length]
    return nn.functional.pad(told, (0, length - told.size(1)), value=True)


def _passing_over(seen: Tensor) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    def hook(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        ids, mask = given
        return ids, mask & _for_batch(_window(seen, 0, ids.size(1)), len(ids))

    return hook


def _not_averaged(seen: Tensor) -> Callable[[nn.Module, tuple[Any, ...], Tensor], Tensor]:
    """What comes to the mean of all places is nothing where it is not seen, and more elsewhere."""

    def hook(_: nn.Module, given: tuple[Any, ...], output: Tensor) -> Tensor:
        visible = _for_batch(_window(seen, 0, output.size(1)), len(output)).to(output)
        return output * (visible / visible.mean(dim=1, keepdim=True).clamp_min(1e-9))[:, :, None]

    return hook


def _pooler(model: EncoderOnly) -> PooledHead | None:
    """What makes one vector of a text, unless that is the state of its first token."""
    head = getattr(model.head, "pooler", model.head)
    return head if isinstance(head, PooledHead) and head.pooling != "cls" else None


def _not_pooling(seen: Tensor) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    """The states of a text that are not seen go to its end, which its length leaves out."""

    def hook(_: nn.Module, given: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden, lengths, *places = given
        visible = _for_batch(_window(seen, 0, hidden.size(1)), len(hidden))
        visible = visible & (torch.arange(hidden.size(1), device=hidden.device) < lengths[:, None])
        order = visible.long().argsort(dim=1, descending=True, stable=True)
        return hidden.gather(1, order[:, :, None].expand_as(hidden)), visible.sum(dim=1), *places

    return hook
