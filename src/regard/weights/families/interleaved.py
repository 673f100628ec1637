"""A model with interleaved sinusoids as one with all sines first: its features in another order."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

NORM = r"(^|\.)norm(_before|_after)?\.(weight|bias)"
FIRST = rf"(output\.weight|outer\.(weight|bias)|attention\.output\.bias|{NORM})$"
LAST = r"(embedding\.weight|query_key_value\.weight|(query|key|value)\.weight|inner\.weight)$"


def split_layout(tensors: Mapping[str, Tensor], d_model: int) -> dict[str, Tensor]:
    """The weights of a Transformer that adds interleaved sinusoids, for one that adds split ones.

    Every sub-layer reads the d_model features and writes them; in whatever order they stand, if all keep
    to it, the logits are the same. Those of `output.weight` at the top are read, so its order is the last
    axis's.
    """
    order = torch.cat([torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)])

    def reordered(name: str, tensor: Tensor) -> Tensor:
        if name == "output.weight" or re.search(LAST, name):
            return tensor[:, order]
        return tensor[order] if re.search(FIRST, name) else tensor

    return {name: reordered(name, tensor) for name, tensor in tensors.items()}
