"""Converts a model with interleaved sinusoidal positions to one with all sines first."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

# weights whose first, or last, axis is the features of the residual stream
NORM = r"(^|\.)norm(_before|_after)?\.(weight|bias)"
FIRST = rf"(output\.weight|outer\.(weight|bias)|attention\.output\.bias|{NORM})$"
LAST = r"(embedding\.weight|query_key_value\.weight|(query|key|value)\.weight|inner\.weight)$"


def split_layout(tensors: Mapping[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """Permutes the features of a Transformer's weights from interleaved to split sinusoids.

    The logits do not change, because all sub-layers read and write the d_model features in the same order.
    `output.weight` of the model reads features, so its last axis is permuted.
    """
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])

    def reordered(name: str, tensor: Tensor) -> Tensor:
        if name == "output.weight" or re.search(LAST, name):
            return tensor[:, order]
        return tensor[order] if re.search(FIRST, name) else tensor

    return {name: reordered(name, tensor) for name, tensor in tensors.items()}
