"""Converts a model with interleaved sinusoidal positions to the split layout: sines, then cosines."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

# weights whose first axis (FIRST) or last axis (LAST) indexes the d_model features of the residual stream
NORM = r"(^|\.)norm(_before|_after)?\.(weight|bias)"
FIRST = rf"(output\.weight|outer\.(weight|bias)|attention\.output\.bias|{NORM})$"
LAST = r"(embedding\.weight|query_key_value\.weight|(query|key|value)\.weight|inner\.weight)$"


def split_layout(tensors: Mapping[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Permutes the d_model features in a Transformer's weights: even ones first, then odd ones.

    With split sinusoids the result computes the same logits as `tensors` with interleaved ones, because all
    sub-layers read and write the features in the same order. The model's own `output.weight` reads features,
    so its last axis is permuted; an attention's `output.weight` writes them, so its first axis is.
    """
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])

    def reordered(name: str, tensor: Tensor) -> Tensor:
        if name == "output.weight" or re.search(LAST, name):
            return tensor[:, order]
        return tensor[order] if re.search(FIRST, name) else tensor

    return {name: reordered(name, tensor) for name, tensor in tensors.items()}
