"""Fused forms for training on a GPU: what `fast.training` calls in place of modules there.

Each function returns None if the kernels cannot compute what the modules compute. The kernels (`fast/triton`)
are imported at the first use, because Triton exists only beside PyTorch for CUDA. They have first derivatives
alone.
"""

from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.fast.dropout_seeds import next_seed
from regard.fast.fusible import can_be_fused_on_gpu, has_gradient, is_on_gpu
from regard.fast.half_copies import copies_are_used, with_half, with_normed
from regard.fast.half_weights import HalfLinear, product
from regard.fast.unchanged import class_is_unchanged
from regard.layers.feedforward import GELU_TANH, FeedForward
from regard.layers.norm import RMSNorm
from regard.layers.positions import RotaryPositions
from regard.layers.scaled_dot_product import Key, Mask, Mixed, Query, Value

WIDEST = 16_384  # features of a norm, all in the registers of one program
HALF = (torch.bfloat16, torch.float16)
ACTIVATIONS = (F.relu, F.gelu, GELU_TANH)  # in the order of the kernels' numbers


def added_norm(
    residual: Float[Tensor, "*rows features"] | None,
    x: Float[Tensor, "*rows features"],
    norm: nn.Module,
    dropout: nn.Module | None,
    dtype: torch.dtype | None = None,
) -> Float[Tensor, "*rows features"] | None:
    """norm(residual + dropout(x)), or norm(x), in this type (None: that of the sum).

    Within `half_copies.copies` it comes with its copy in the type of autocast.
    """
    if not _has_kernel(residual, x, norm, dropout):
        return None
    wide = dtype or (x.dtype if residual is None else torch.promote_types(x.dtype, residual.dtype))
    narrow = product_dtype(x)
    half = narrow if narrow != wide and copies_are_used() else None
    out, copy, _ = _add_norm(residual, x, norm, dropout, wide, half=half)
    return with_half(out, copy)


def added(
    residual: Float[Tensor, "*rows features"],
    x: Float[Tensor, "*rows features"],
    dropout: nn.Module,
    norm: nn.Module,
) -> Float[Tensor, "*rows features"] | None:
    """residual + dropout(x), which comes with what `norm`, the next one, makes of it."""
    if not _has_kernel(residual, x, norm, dropout):
        return None
    normed, _, found = _add_norm(residual, x, norm, dropout, product_dtype(x), passes=True)
    assert found is not None
    return with_normed(found, norm, normed)


def _has_kernel(residual: Tensor | None, x: Tensor, norm: nn.Module, dropout: nn.Module | None) -> bool:
    if type(norm) not in (nn.LayerNorm, RMSNorm) or norm.weight is None or norm.eps is None:
        return False
    parts = [norm] if dropout is None else [norm, dropout]
    return (
        norm.normalized_shape == x.shape[-1:]
        and x.size(-1) <= WIDEST
        and class_is_unchanged(type(norm))
        and (residual is None or residual.shape == x.shape)
        and can_be_fused_on_gpu(x, *parts)
    )


def _add_norm(
    residual: Tensor | None,
    x: Tensor,
    norm: nn.Module,
    dropout: nn.Module | None,
    dtype: torch.dtype,
    *,
    half: torch.dtype | None = None,
    passes: bool = False,
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The norm, its copy in half precision, and the sum; the last two may be None."""
    from regard.fast.triton import norm as kernels

    centers = type(norm) is nn.LayerNorm
    settings = kernels.Norm(cast(float, norm.eps), centers, dtype, half, passes)
    bias = norm.bias if centers else None
    return kernels.AddNorm.apply(residual, x, norm.weight, bias, settings, _drops(dropout))  # pyright: ignore


def added_dropped(
    residual: Float[Tensor, "*shape"], x: Float[Tensor, "*shape"], dropout: nn.Module
) -> Float[Tensor, "*shape"] | None:
    """residual + dropout(x)."""
    if residual.shape != x.shape or not can_be_fused_on_gpu(x, dropout):
        return None
    from regard.fast.triton.elementwise import AddDropped

    return AddDropped.apply(residual, x, _drops(dropout))


def fed_forward(
    module: FeedForward, x: Float[Tensor, "*batch d_model"]
) -> Float[Tensor, "*batch d_model"] | None:
    """The feed-forward network with bias, activation and dropout in one pass over memory."""
    inner, outer = module.inner, module.outer
    known = type(inner) in (nn.Linear, HalfLinear) and module.activation in ACTIVATIONS
    if not known or inner.bias is None or not can_be_fused_on_gpu(x, inner, module.dropout, outer):
        return None
    from regard.fast.triton.elementwise import ActivateDropped

    hidden = product(inner, x, bias=False)
    if hidden.numel() >= 2**31:
        return None
    kind = ACTIVATIONS.index(module.activation)
    return outer(ActivateDropped.apply(hidden, inner.bias, kind, _drops(module.dropout)))


def short_attention(query: Query, key: Key, value: Value, mask: Mask | None, dropout: float) -> Mixed | None:
    """Attention of sequences that are short enough for one program a head."""
    if not is_on_gpu(query) or query.dtype not in HALF:
        return None
    wanted = dropout or has_gradient(query)  # without either PyTorch's kernels do as well
    if not wanted or not can_be_fused_on_gpu(query) or not query.dtype == key.dtype == value.dtype:
        return None
    from regard.fast.triton.attention import ShortAttention, fits

    alike = key.shape == value.shape and query.shape[:2] == key.shape[:2] and query.size(3) == key.size(3)
    plain = mask is None or (mask.dtype == torch.bool and mask.size(1) == 1 and mask.size(3) == key.size(2))
    weights = query.size(0) * query.size(1) * query.size(2) * key.size(2)
    longest = max(query.size(2), key.size(2))
    if not (alike and plain and 0 < weights < 2**31 and fits(query.device, longest, query.size(3))):
        return None
    return ShortAttention.apply(query, key, value, mask, None, _drops_of(dropout))


def attention_of_sequences(
    query: Query,
    key: Key,
    value: Value,
    bounds: Int64[Tensor, " bounds"],
    key_bounds: Int64[Tensor, " bounds"],
    longest: int,
    dropout: float,
    *,
    is_causal: bool,
) -> Mixed:
    """Attention of sequences that lie one after another, of which `has_attention_of_sequences`."""
    from regard.fast.triton.attention import PackedRows, ShortAttention

    dtype = product_dtype(value)  # norms and rotations of queries and keys may have given float32
    rows = PackedRows(bounds, key_bounds, longest, is_causal)
    return ShortAttention.apply(
        query.to(dtype), key.to(dtype), value.to(dtype), None, rows, _drops_of(dropout)
    )


def has_attention_of_sequences(weight: Tensor, count: int, heads: int, width: int, longest: int) -> bool:
    """True if the kernel knows this many sequences, and heads of this width, where this weight is."""
    if product_dtype(weight) not in HALF or not can_be_fused_on_gpu(weight.detach()):
        return False
    from regard.fast.triton.attention import fits

    # dropout numbers all weights in 32 bits
    return count * heads * longest**2 < 2**31 and fits(weight.device, longest, width)


def rotated(
    module: RotaryPositions,
    x: Float[Tensor, "batch heads len d_head"],
    positions: Int64[Tensor, " len"] | None,
    sine: Float[Tensor, "places rotary_dim"],
    cosine: Float[Tensor, "places rotary_dim"],
) -> Float[Tensor, "batch heads len d_head"] | None:
    """What the module computes with these tables: at each position, or at `positions` of them."""
    is_power = x.size(-1) & (x.size(-1) - 1) == 0
    is_known = is_power and module.rotary_dim == x.size(-1) and x.size(0) < 2**16
    if not is_known or not can_be_fused_on_gpu(x, module):
        return None
    from regard.fast.triton.rotation import Rotation

    return Rotation.apply(x, positions, sine, cosine)


def linear_cross_entropy(
    states: Float[Tensor, "tokens d_model"],
    output: nn.Linear,
    labels: Int64[Tensor, " tokens"],
    smoothing: float,
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Summed cross-entropies with smoothing and without, of what `has_linear_cross_entropy`."""
    from regard.fast.triton.cross_entropy import LinearCrossEntropy

    dtype = product_dtype(states)
    return LinearCrossEntropy.apply(states, output.weight, output.bias, labels, smoothing, dtype)


def has_linear_cross_entropy(states: Float[Tensor, "tokens d_model"], output: nn.Linear) -> bool:
    """True if `linear_cross_entropy` can compute the loss of this output layer.

    Not in float16: gradients are computed before a scaler of the loss could lift them.
    """
    return has_gradient(states) and _has_loss(states, output)


def has_loss_of(output: nn.Linear) -> bool:
    """The same for states that are not computed yet."""
    return _has_loss(output.weight.detach(), output)


def _has_loss(states: Tensor, output: nn.Linear) -> bool:
    return product_dtype(states) != torch.float16 and can_be_fused_on_gpu(states, output)


def product_dtype(x: Tensor) -> torch.dtype:
    """The type in which linear layers compute with `x`."""
    device = x.device.type
    narrow = is_on_gpu(x) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if narrow else x.dtype


def _drops(dropout: nn.Module | None):
    return _drops_of(0.0 if dropout is None else cast(nn.Dropout, dropout).p)


def _drops_of(p: float):
    from regard.fast.triton.norm import Drops

    return Drops(p, next_seed() if p else 0)
