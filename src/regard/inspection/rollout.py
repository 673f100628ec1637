"""Attention rollout: attention traced through all layers of a stack (Abnar and Zuidema 2020)."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor


def attention_rollout(
    weights: Sequence[Float[Tensor, "heads len len"]], *, residual: float = 0.5
) -> Float[Tensor, "len len"]:
    """The share of each input position (column) in each output position (row) of a stack; rows sum to 1.

    `weights` are those of the stack's self-attentions, from the lowest layer to the highest; heads are
    averaged. A layer is A = residual I + (1 - residual) W (section 3, with residual 0.5), and the rollout is
    the product of all layers. Values, norms and feed-forward layers are ignored.

    Raises:
        ValueError: `weights` is empty.
    """
    if not weights:
        raise ValueError("a rollout needs the weights of one layer or more")
    found = torch.eye(weights[0].size(-1), device=weights[0].device)
    for layer in weights:
        mean_weights = layer.float().mean(dim=0)
        layer_map = residual * torch.eye(len(found), device=found.device) + (1 - residual) * mean_weights
        layer_map = layer_map / layer_map.sum(dim=-1, keepdim=True)  # a row that is masked whole keeps itself
        found = layer_map @ found
    return found
