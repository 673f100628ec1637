"""Attention rollout: attention traced through all layers of a stack (Abnar and Zuidema 2020)."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError


def attention_rollout(
    weights: Sequence[Float[Tensor, "heads len len"]], *, residual: float = 0.5
) -> Float[Tensor, "len len"]:
    """The share of each input position (column) in each output position (row) of a stack; rows sum to 1.

    `weights` are those of the stack's self-attentions, from the lowest layer to the highest; heads are
    averaged. A layer is A = residual I + (1 - residual) W (section 3, with residual 0.5), and the rollout is
    the product of all layers. Values, norms and feed-forward layers are ignored.

    Raises:
        ConfigError: `weights` is empty, or its layers are not square or of different lengths, or `residual`
            is not between 0 and 1.
    """
    if isinstance(residual, bool) or not isinstance(residual, int | float) or not 0 <= residual <= 1:
        raise ConfigError(
            f"residual = {residual!r} is not the share of the residual connection",
            "it is 0 to 1; the paper's is 0.5",
        )
    if not weights:
        raise ConfigError("a rollout needs the weights of one layer or more", "give those of all layers")
    shapes = sorted({tuple(layer.shape[-2:]) if layer.dim() == 3 else (*layer.shape,) for layer in weights})
    if len(shapes) > 1 or len(shapes[0]) != 2 or shapes[0][0] != shapes[0][1] or weights[0].dim() != 3:
        raise ConfigError(
            f"the weights of the layers have the shapes {', '.join(map(str, shapes))}",
            "give those of self-attentions of one stack, [heads, len, len]",
        )
    found = torch.eye(weights[0].size(-1), device=weights[0].device)
    for layer in weights:
        mean_weights = layer.float().mean(dim=0)
        layer_map = residual * torch.eye(len(found), device=found.device) + (1 - residual) * mean_weights
        layer_map = layer_map / layer_map.sum(dim=-1, keepdim=True)  # a row that is masked whole keeps itself
        found = layer_map @ found
    return found
