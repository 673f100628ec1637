"""Switches parts of a model off: heads, blocks, sub-layers and input tokens.

Forward hooks and replaced attention kernels do it, and are removed afterwards. Decoding works too: modules
with hooks use the plain decoding step. "Off" means:

- a head: its output is zero before the output projection (Michel et al. 2019; the mean over a data set would
  be another choice);
- a block: its output is its input; a sub-layer: its residual branch is left out, but the norm of a post-norm
  block stays;
- a token: it is masked in every attention and left out of pooling, and a recurrent encoder skips it. A
  decoder that reads the token still has its embedding in the residual stream of that position.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from regard.errors import ConfigError, did_you_mean
from regard.inspection.decoder_calls import refuse_cached_calls
from regard.inspection.names_given import (
    attention_hint,
    refuse_other_module,
    refuse_other_names,
    refuse_unnamed_heads,
)
from regard.inspection.numbers_given import refuse_other_indices, refuse_other_tokens
from regard.inspection.own_thread import in_this_thread
from regard.inspection.passes import AttentionSite, attention_sites, refuse_shared_modules
from regard.layers.attention import MultiHeadAttention
from regard.layers.block import DecoderBlock, EncoderBlock, PostNorm, Residual
from regard.layers.cache import KeyValue
from regard.layers.kernels import Attend, around, current_attend, exchanged
from regard.layers.recurrent import SourceAttention
from regard.models.encoder_only import EncoderOnly
from regard.models.heads import PooledHead
from regard.models.model import Model
from regard.models.recurrent import BATCH_MULTIPLE, Recurrent
from regard.models.vision import VisionTransformer

SEVERAL = "several ablations at once cannot decode: rows move", "decode under one ablation after the other"
SUBLAYER_NAMES = ("self_attention", "cross_attention", "feed_forward")


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """The parts to switch off; by default none."""

    heads: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by the name of their attention
    layers: Sequence[str] = ()  # names of blocks or their sub-layers, as `layer_names` gives them
    tokens: Sequence[int] = ()  # positions in the source, or else in the text, or in a decoder's input


def layer_names(model: Model) -> list[str]:
    """The names of the blocks and sub-layers that can be switched off, in the order of computation."""
    refuse_other_module(model)
    names = []
    for name, module in model.named_modules():
        if isinstance(module, EncoderBlock | DecoderBlock):
            names.append(name)
            names += [f"{name}.{part}" for part in SUBLAYER_NAMES if hasattr(module, part)]
    return names


@contextmanager
def ablated(model: Model, *ablations: Ablation) -> Iterator[None]:
    """A context in which the model runs without these parts in this thread; others have the whole model.

    One of `ablations` applies to all rows of a batch, several apply to one row each. Several need a pass
    without a cache, because decoding moves and drops rows.

    Raises:
        ConfigError: the model has no such head or layer, or two of its attentions or blocks are one module;
            inside the `with`, a text that is read as a whole has no such token (one that is being written
            may yet have it), or several ablations meet a cache, or a batch with another number of rows.
    """
    _refuse_unknown(model, ablations)
    refuse_shared_modules(model)
    with ExitStack() as undo:
        if len(ablations) > 1:
            undo.enter_context(refuse_cached_calls(model, *SEVERAL))
        for site in attention_sites(model):
            off = [each.heads.get(site.name, ()) for each in ablations]
            if any(off):
                undo.enter_context(
                    _without_heads(_attention_module(model, site), _kept_mask(off, site.num_heads))
                )
        for name in layer_names(model):
            off = [name in each.layers for each in ablations]
            if any(off):
                undo.enter_context(_without_layer(model, name, torch.tensor(off, device=model.device)))
        if any(each.tokens for each in ablations):
            undo.enter_context(_without_tokens(model, [each.tokens for each in ablations]))
        yield


def _refuse_unknown(model: nn.Module, ablations: Sequence[Ablation]) -> None:
    refuse_other_module(model)
    if not isinstance(model, Model):
        raise ConfigError(
            f"parts of {type(model).__name__} cannot be switched off: it is not a Model of regard",
            "inherit from Model of regard.models, which needs a config and initialise(generator)",
        )
    heads = {site.name: site.num_heads for site in attention_sites(model)}
    layers = layer_names(model)
    for each in ablations:
        refuse_unnamed_heads(each.heads, next(iter(heads), "blocks.0.self_attention"))
        for name, chosen in each.heads.items():
            if name not in heads:
                raise ConfigError(f"the model has no attention {name!r}", attention_hint(model, name, heads))
            refuse_other_indices(name, "heads", chosen, heads[name], needs_one=False)
        for name in refuse_other_names("layers", each.layers, "blocks.0"):
            if name not in layers:
                hint = did_you_mean(name, layers) if layers else "only Transformers have such layers"
                raise ConfigError(f"no layer {name!r} can be switched off in this model", hint)
        refuse_other_indices("the text", "tokens", each.tokens, None, needs_one=False)


def _attention_module(model: Model, site: AttentionSite) -> MultiHeadAttention | SourceAttention:
    module = model.get_submodule(site.name)
    assert isinstance(module, MultiHeadAttention | SourceAttention)
    return module


def _kept_mask(off: Sequence[Sequence[int]], count: int) -> Bool[Tensor, "rows {count}"]:
    """For each row a mask of `count` items, False for those that are off."""
    on = torch.ones(len(off), count, dtype=torch.bool)
    for row, items_off in enumerate(off):
        on[row, list(items_off)] = False
    return on


def _rows_for_batch(of_rows: Tensor, batch_size: int) -> Tensor:
    """One row per example: a single row applies to all; a recurrent encoder pads its batch with copies.

    Raises:
        ConfigError: there are several rows, and another number of examples.
    """
    count = len(of_rows)
    if count in (1, batch_size):
        return of_rows
    if batch_size != -(-count // BATCH_MULTIPLE) * BATCH_MULTIPLE:
        raise ConfigError(
            f"{count} ablations for a batch of {batch_size} rows", "give one for all rows, or one for each"
        )
    return of_rows[torch.arange(batch_size, device=of_rows.device) % len(of_rows)]


@contextmanager
def _without_heads(
    module: MultiHeadAttention | SourceAttention, on: Bool[Tensor, "rows heads"]
) -> Iterator[None]:
    masked = _masked_kernel(
        current_attend(module), on, is_source_attention=isinstance(module, SourceAttention)
    )
    with exchanged(module, masked):
        yield


def _masked_kernel(original: Attend, on: Bool[Tensor, "rows heads"], *, is_source_attention: bool) -> Attend:
    """The kernel `original` with zero output for heads that are off; a `SourceAttention` has no head axis."""

    def attend(*inputs: Any) -> Tensor:
        output = original(*inputs)
        kept = _rows_for_batch(on, len(output)).to(output.device)
        return output.where(kept[:, :, None] if is_source_attention else kept[:, :, None, None], 0.0)

    return around(original, attend)


@contextmanager
def _without_layer(model: Model, name: str, off: Bool[Tensor, " rows"]) -> Iterator[None]:
    block, _, sublayer = name.rpartition(".")
    is_block = sublayer not in SUBLAYER_NAMES
    module = model.get_submodule(name if is_block else f"{block}.around_{sublayer}")

    def skip(module: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        without = inputs[0] if is_block else _without_sublayer(module, inputs)
        return without.where(_rows_for_batch(off, len(output))[:, None, None], output)

    hook = module.register_forward_hook(in_this_thread(skip))
    try:
        yield
    finally:
        hook.remove()


def _without_sublayer(module: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    """The output of a residual module whose sub-layer gives 0; a parallel block has a residual of its own."""
    assert isinstance(module, Residual)
    x, _, *residual = inputs
    return module.norm(x) if isinstance(module, PostNorm) else residual[0] if residual else x


@contextmanager
def _without_tokens(model: Model, off: Sequence[Sequence[int]]) -> Iterator[None]:
    token_mask = _kept_mask(off, max(max(positions, default=-1) for positions in off) + 1).to(model.device)
    columns = "source" if any(site.columns == "source" for site in attention_sites(model)) else None
    with ExitStack() as undo:
        for site in attention_sites(model):
            if columns is None or site.columns == columns:
                hook = _hide_tokens(token_mask, _attention_module(model, site))
                undo.callback(hook.remove)
        if isinstance(model, Recurrent):
            undo.callback(
                model.encoder.register_forward_pre_hook(in_this_thread(_mask_hook(token_mask))).remove
            )
        if isinstance(model, EncoderOnly) and (convolution := model.encoder.convolution) is not None:
            undo.callback(
                convolution.register_forward_pre_hook(in_this_thread(_mask_hook(token_mask))).remove
            )
        if isinstance(model, EncoderOnly) and (head := _pooler(model)) is not None:
            undo.callback(head.register_forward_pre_hook(in_this_thread(_pooling_hook(token_mask))).remove)
        if isinstance(model, VisionTransformer) and model.class_token is None:
            undo.callback(model.norm.register_forward_hook(in_this_thread(_mean_hook(token_mask))).remove)
        yield


def _hide_tokens(token_mask: Tensor, module: MultiHeadAttention | SourceAttention) -> Any:
    """A hook that masks tokens that are off in `token_mask`."""
    if isinstance(module, SourceAttention):  # query, keys, memory, mask

        def source_hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            query, keys, memory, mask = inputs
            _refuse_tokens_beyond(token_mask, mask.any(dim=1))
            visible = _rows_for_batch(_window(token_mask, 0, keys.size(1)), len(query))[:, None]
            return query, keys, memory, mask & visible

        return module.register_forward_pre_hook(in_this_thread(source_hook))

    def hook(
        _: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        x, memory, *mask = inputs
        new_len = memory.key.size(2) if isinstance(memory, KeyValue) else memory.size(1)
        cache = kwargs.get("cache")
        start, cache_len = (0, 0)
        if cache is not None:  # positions are those of the text, also in a rolling context window
            start, cache_len = cache.first + cache.length - cache.held, cache.held
        visible = _rows_for_batch(_window(token_mask, start, cache_len + new_len), len(x))[:, None, None]
        given_mask = mask[0] if mask else kwargs.pop("mask", None)
        if cache is None:
            real = x.new_ones(1, new_len) if given_mask is None else given_mask.flatten(1, -2).any(1)
            _refuse_tokens_beyond(token_mask, real)
        return (x, memory, visible if given_mask is None else given_mask & visible), kwargs

    return module.register_forward_pre_hook(in_this_thread(hook), with_kwargs=True)


def _refuse_tokens_beyond(token_mask: Tensor, real: Tensor) -> None:
    """Raise a ConfigError if a token to mask is beyond the end of its text in a batch; `real`: all it has."""
    lengths = (real.bool() * torch.arange(1, real.size(1) + 1, device=real.device)).amax(dim=1)
    last = (~token_mask * torch.arange(1, token_mask.size(1) + 1, device=real.device)).amax(dim=1)
    if len(last) not in (1, len(lengths)):
        last = last.amax()[None] if len(lengths) == 1 else _rows_for_batch(last, len(lengths))
    if bool((last > lengths).any()):
        row = int((last > lengths).nonzero()[0, 0])
        refuse_other_tokens([int(last.expand(len(lengths))[row]) - 1], int(lengths[row]))


def _window(token_mask: Bool[Tensor, "rows len"], start: int, length: int) -> Bool[Tensor, "rows {length}"]:
    """The visibility of `length` positions from `start` on; positions beyond `token_mask` are visible."""
    known = token_mask[:, start : start + length]
    return nn.functional.pad(known, (0, length - known.size(1)), value=True)


def _mask_hook(token_mask: Tensor) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    """A hook of a module that is given ids or states, and which of them are real: masked tokens are not."""

    def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        x, real = inputs
        _refuse_tokens_beyond(token_mask, real)
        return x, real & _rows_for_batch(_window(token_mask, 0, x.size(1)), len(x))

    return hook


def _mean_hook(token_mask: Tensor) -> Callable[[nn.Module, tuple[Any, ...], Tensor], Tensor]:
    """A hook that leaves hidden patches out of a mean over patches: 0 for them, a scale for the others."""

    def hook(_: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> Tensor:
        visible = _rows_for_batch(_window(token_mask, 0, output.size(1)), len(output)).to(output)
        return output * (visible / visible.mean(dim=1, keepdim=True).clamp_min(1e-9))[:, :, None]

    return hook


def _pooler(model: EncoderOnly) -> PooledHead | None:
    """The head that pools the states of a text, if it uses more than the first token's state."""
    head = getattr(model.head, "pooler", model.head)
    return head if isinstance(head, PooledHead) and head.pooling != "cls" else None


def _pooling_hook(token_mask: Tensor) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
    """A hook that moves hidden states behind the end of the text and shortens its length."""

    def hook(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        hidden, lengths, *rest = inputs
        visible = _rows_for_batch(_window(token_mask, 0, hidden.size(1)), len(hidden))
        visible = visible & (torch.arange(hidden.size(1), device=hidden.device) < lengths[:, None])
        order = visible.long().argsort(dim=1, descending=True, stable=True)
        return hidden.gather(1, order[:, :, None].expand_as(hidden)), visible.sum(dim=1), *rest

    return hook
