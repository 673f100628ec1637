"""The weights of an attention whose kernel does not give them, from its outputs for one-hot values."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.layers.scaled_dot_product import for_each_query_head


def weights_by_kernel(
    mix: Callable[[Tensor], Tensor], value: Float[Tensor, "batch *kv_heads src_len d_value"]
) -> Float[Tensor, "batch *heads tgt_len src_len"]:
    """The weights that any kernel uses: its outputs for one-hot values, `d_value` columns in each call.

    `mix(values)` calls the kernel with the other inputs and without dropout.

    Raises:
        ValueError: its output is not the values multiplied by weights.
    """
    src_len, width = value.shape[-2:]
    one_hot = torch.eye(src_len, dtype=value.dtype, device=value.device)
    columns = F.pad(one_hot, (0, -src_len % width)).split(width, dim=1)
    found = [mix(each.expand_as(value).contiguous()) for each in columns]
    weights = torch.cat(found, dim=-1)[..., :src_len]
    values = value if value.dim() == 3 else for_each_query_head(value, weights)
    _refuse_other_outputs(weights.float() @ values.float(), mix(value))
    return weights


def _refuse_other_outputs(mixed: Tensor, output: Tensor) -> None:
    """Raise a ValueError unless both are equal to the rounding of the output's type."""
    tolerance = torch.finfo(output.dtype).eps ** 0.5
    output = output.float()
    largest = float(output.abs().nan_to_num().max()) if output.numel() else 0.0
    if not torch.allclose(mixed, output, rtol=tolerance, atol=tolerance * largest, equal_nan=True):
        raise ValueError("the output of this kernel is not a weighted mean of the values")
