"""Fused forms for training a built model on a CPU in float32 or on a GPU, applied from outside.

`fuse` replaces the classes of modules of exactly known types by subclasses with a fused forward, and the
`attend` of attentions; parameters and their names stay. Each fused forward checks at every call whether the
kernel may replace the modules inside it, and calls the modules if not. What a GPU computes is in
`gpu_training.py`.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from regard.fast import gpu_training
from regard.fast.activation_kinds import kernel_kind
from regard.fast.bfloat16_products import BFLOAT16_FORMS, linear_layers_are_replaced
from regard.fast.causal_attention import causal_attentions, causal_training_attention
from regard.fast.cpu_training import CPU_FORMS
from regard.fast.dropout import FastDropout, dropout_bits
from regard.fast.fusible import can_be_fused, is_on_gpu
from regard.fast.half_copies import copies_are_used, normed_of
from regard.fast.half_weights import HALF_FORMS
from regard.fast.linear_cross_entropy import output_layer
from regard.fast.native.activation_training import ActivateDropped
from regard.fast.native.residual import AddDropped, AddNorm, DropoutBits, FeedForwardReLU
from regard.fast.packed_rows import FusedRotaryPositions
from regard.fast.training_attention import training_attention
from regard.fast.unchanged import class_is_unchanged, has_hooks, overrides
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import (
    DecoderBlock,
    EncoderBlock,
    PostNorm,
    PreNorm,
    ReorderedNorm,
    SandwichNorm,
    Sublayer,
)
from regard.layers.feedforward import FeedForward, GatedFeedForward
from regard.layers.kernels import SOFTMAX_KERNELS
from regard.layers.positions import RotaryPositions
from regard.layers.relative import RelativeSelfAttention
from regard.layers.scaled_dot_product import attention

RESIDUALS = (PostNorm, PreNorm, SandwichNorm, ReorderedNorm)
SUBLAYERS = (MultiHeadAttention, *RESIDUALS, FeedForward, GatedFeedForward)
ATTENTIONS = (MultiHeadAttention, SelfAttention, RelativeSelfAttention)
TRAINING_KERNELS = (training_attention, causal_training_attention)
SOFTMAX_KERNELS += TRAINING_KERNELS


class FusedPostNorm(PostNorm):
    """`PostNorm` with residual, dropout and layer norm in one pass over memory."""

    def forward(
        self, x: Float[Tensor, "batch len d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "batch len d_model"]:
        if not class_is_unchanged(PostNorm):
            return super().forward(x, sublayer)
        y = sublayer(x)
        if is_on_gpu(y) and _is_fast(self.dropout):
            found = gpu_training.added_norm(x, y, self.norm, self.dropout)
            if found is not None:
                return found
        if not self._can_be_fused(x, y):
            return self.norm(x + self.dropout(y))
        p, norm = self.dropout.p, cast(nn.LayerNorm, self.norm)
        return AddNorm.apply(
            x, y, norm.weight, norm.bias, norm.eps, dropout_bits(y.shape, p) if p else DropoutBits(None)
        )

    def _can_be_fused(self, x: Tensor, y: Tensor) -> bool:
        norm = self.norm
        return (
            _is_known_norm(norm)
            and norm.normalized_shape == y.shape[-1:]
            and _are_alike(x, y)
            and _is_fast(self.dropout)
            and can_be_fused(y, norm, self.dropout)
        )


class FusedPreNorm(PreNorm):
    """`PreNorm` with residual and dropout in one pass over memory."""

    def forward(
        self,
        x: Float[Tensor, "batch len d_model"],
        sublayer: Sublayer,
        residual: Float[Tensor, "batch len d_model"] | None = None,
    ) -> Float[Tensor, "batch len d_model"]:
        if not class_is_unchanged(PreNorm):
            return super().forward(x, sublayer, residual)
        y = sublayer(_normed(self.norm, x))
        return _added(x if residual is None else residual, y, self.dropout, vars(self).get("next_norm"))


class FusedSandwichNorm(SandwichNorm):
    """`SandwichNorm` with residual and dropout in one pass over memory."""

    def forward(
        self, x: Float[Tensor, "batch len d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "batch len d_model"]:
        if not class_is_unchanged(SandwichNorm):
            return super().forward(x, sublayer)
        return _added(x, self.norm_after(sublayer(_normed(self.norm_before, x))), self.dropout)


class FusedReorderedNorm(ReorderedNorm):
    """`ReorderedNorm` with residual and dropout in one pass over memory."""

    def forward(
        self, x: Float[Tensor, "batch len d_model"], sublayer: Sublayer
    ) -> Float[Tensor, "batch len d_model"]:
        if not class_is_unchanged(ReorderedNorm):
            return super().forward(x, sublayer)
        return _added(x, self.norm(sublayer(x)), self.dropout)


def _normed(norm: nn.Module, x: Tensor) -> Tensor:
    """norm(x), which a linear layer reads: on a GPU in the type of its product."""
    if is_on_gpu(x):
        dtype = gpu_training.product_dtype(x)
        if (normed := normed_of(x, norm, dtype)) is not None:
            return normed
        found = gpu_training.added_norm(None, x, norm, None, dtype)
        if found is not None:
            return found
    return norm(x)


def _added(x: Tensor, y: Tensor, dropout: nn.Dropout, next_norm: nn.Module | None = None) -> Tensor:
    """x + dropout(y), which on a GPU comes with what the next norm makes of it."""
    if is_on_gpu(y) and _is_fast(dropout):
        found = None
        if next_norm is not None and copies_are_used():
            found = gpu_training.added(x, y, dropout, next_norm)
        if found is None and dropout.p:
            found = gpu_training.added_dropped(x, y, dropout)
        if found is not None:
            return found
    if _is_fast(dropout) and dropout.p and _are_alike(x, y) and can_be_fused(y, dropout):
        return AddDropped.apply(x, y, dropout_bits(y.shape, dropout.p))
    return x + dropout(y)


def _is_fast(dropout: nn.Module) -> bool:
    return type(dropout) is FastDropout and class_is_unchanged(nn.Dropout)


def _are_alike(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape and x.dtype == y.dtype


class FusedFeedForward(FeedForward):
    """`FeedForward` with activation and dropout in one pass over memory; with ReLU, the bias, too."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        if is_on_gpu(x) and _is_fast(self.dropout) and class_is_unchanged(FeedForward):
            found = gpu_training.fed_forward(self, x)
            return super().forward(x) if found is None else found
        if not class_is_unchanged(FeedForward):
            return super().forward(x)
        if not self._can_be_fused(x):
            hidden = self.inner(x)
            found = _activated(self, hidden, gated=False)
            return self.outer(self.dropout(self.activation(hidden)) if found is None else found)
        rows = x.reshape(-1, x.size(-1))
        p = self.dropout.p
        dropped = dropout_bits((*x.shape[:-1], self.inner.out_features), p) if p else DropoutBits(None)
        inner, outer = self.inner, self.outer
        out = FeedForwardReLU.apply(rows, inner.weight, inner.bias, outer.weight, outer.bias, dropped)
        return out.view(*x.shape[:-1], -1)

    def _can_be_fused(self, x: Tensor) -> bool:
        return (
            self.activation is F.relu
            and _is_known_linear(self.inner)
            and _is_known_linear(self.outer)
            and _is_fast(self.dropout)
            and can_be_fused(x, self.inner, self.dropout, self.outer)
        )


class FusedGatedFeedForward(GatedFeedForward):
    """`GatedFeedForward` with activation, product and dropout in one pass over memory."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        if not class_is_unchanged(GatedFeedForward):
            return super().forward(x)
        both = self.gate_inner(x)
        found = _activated(self, both, gated=True)
        if found is None:
            gate, inner = both.chunk(2, dim=-1)
            found = self.dropout(self.activation(gate) * inner)
        return self.outer(found)


def _activated(module: FeedForward | GatedFeedForward, hidden: Tensor, *, gated: bool) -> Tensor | None:
    """Activation and dropout of a network; None if a kernel may not replace them."""
    kind, dropout = kernel_kind(module.activation), module.dropout
    if kind is None or not (_is_fast(dropout) and can_be_fused(hidden, dropout)):
        return None
    shape = (*hidden.shape[:-1], hidden.size(-1) // (1 + gated))
    dropped = dropout_bits(shape, dropout.p) if dropout.p else DropoutBits(None)
    return ActivateDropped.apply(hidden, kind, gated, dropped)


FUSED_FORMS: dict[type[nn.Module], type[nn.Module]] = {
    nn.Dropout: FastDropout,
    PostNorm: FusedPostNorm,
    PreNorm: FusedPreNorm,
    SandwichNorm: FusedSandwichNorm,
    ReorderedNorm: FusedReorderedNorm,
    FeedForward: FusedFeedForward,
    GatedFeedForward: FusedGatedFeedForward,
}
GPU_FORMS = HALF_FORMS | {RotaryPositions: FusedRotaryPositions}
PLAIN_FORMS = {
    fused: plain
    for forms in (FUSED_FORMS, BFLOAT16_FORMS, CPU_FORMS, GPU_FORMS)
    for plain, fused in forms.items()
}


def plain_type(module: nn.Module) -> type[nn.Module]:
    """The class that `module` has without `fuse`."""
    return PLAIN_FORMS.get(type(module), type(module))


def plain_attend(module: MultiHeadAttention) -> Callable[..., Tensor]:
    """The `attend` that `module` has without `fuse`."""
    return attention if module.attend in TRAINING_KERNELS else module.attend


def fusible_parts(model: nn.Module) -> dict[str, str | None]:
    """Each attention, residual connection and feed-forward network by name, and why a CPU has no fused form.

    None if it has one. Whether the kernel is used is decided for each batch: it must be training in float32
    on a CPU, and for attention the shapes must be supported.
    """
    return {
        name: _why_not_fused(module)
        for name, module in model.named_modules()
        if isinstance(module, SUBLAYERS)
    }


def _why_not_fused(module: nn.Module) -> str | None:
    kind = plain_type(module)
    if kind not in (*FUSED_FORMS, *ATTENTIONS):
        return f"{type(module).__name__} is not a type that it knows"
    if not class_is_unchanged(kind) or overrides(module):
        return "a method was replaced"
    if isinstance(module, MultiHeadAttention):
        return None if plain_attend(module) is attention else "its attend was exchanged"
    if any(map(has_hooks, module.children())):
        return "a part of it has a hook"
    if isinstance(module, FeedForward) and module.activation is F.relu:
        known = _is_known_linear(module.inner) and _is_known_linear(module.outer)
        return None if known else "its linear layers are not plain ones with bias"
    if isinstance(module, (FeedForward, GatedFeedForward)):
        return "its activation has no kernel" if kernel_kind(module.activation) is None else None
    if isinstance(module, PostNorm):
        return None if _is_known_norm(module.norm) else "its norm is not a layer norm with gain and bias"
    return None


def _is_known_linear(module: nn.Module) -> bool:
    return type(module) is nn.Linear and module.bias is not None


def _is_known_norm(module: nn.Module) -> bool:
    return type(module) is nn.LayerNorm and module.weight is not None and module.bias is not None


def fuse(model: nn.Module) -> None:
    """Give all modules of known types their fused forms, except modules that were changed.

    Within `bfloat16_products` and on a GPU linear layers get theirs too, except the output layer, whose loss
    is computed with it.
    """
    on_gpu = any(map(is_on_gpu, model.parameters()))
    forms = dict(FUSED_FORMS if on_gpu else FUSED_FORMS | CPU_FORMS)
    if linear_layers_are_replaced():
        forms |= BFLOAT16_FORMS
    elif on_gpu:
        forms |= GPU_FORMS
    output, causal = output_layer(model), set(causal_attentions(model))
    for module in model.modules():
        kind = None if module is output else forms.get(type(module))
        if kind is not None and not overrides(module) and class_is_unchanged(type(module)):
            module.__class__ = kind
        elif type(module) in ATTENTIONS and cast(MultiHeadAttention, module).attend is attention:
            attend = causal_training_attention if module in causal else training_attention
            cast(MultiHeadAttention, module).attend = attend
    if on_gpu:
        for residual, norm in _next_norms(model):
            vars(residual)["next_norm"] = norm


def _next_norms(model: nn.Module) -> Iterator[tuple[nn.Module, nn.Module]]:
    """Each pre-norm residual connection of a stack, and the norm of the one after it."""
    for stack in model.modules():
        if isinstance(stack, nn.ModuleList) and all(
            type(each) in (EncoderBlock, DecoderBlock) for each in stack
        ):
            order = (
                each for block in stack for name, each in block.named_children() if name.startswith("around_")
            )
            for one, other in itertools.pairwise(order):
                if type(one) is type(other) is FusedPreNorm:
                    yield one, cast(FusedPreNorm, other).norm


def unfuse(model: nn.Module) -> None:
    """Give all modules their plain forms back."""
    for module in model.modules():
        vars(module).pop("next_norm", None)
        if type(module) in PLAIN_FORMS:
            module.__class__ = PLAIN_FORMS[type(module)]
        elif isinstance(module, MultiHeadAttention) and module.attend in TRAINING_KERNELS:
            module.attend = attention


@contextmanager
def fused(model: nn.Module) -> Iterator[None]:
    """A context in which `model` has its fused forms; afterwards it has its plain forms again."""
    fuse(model)
    try:
        yield
    finally:
        unfuse(model)
