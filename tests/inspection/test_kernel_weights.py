"""The weights of kernels, computed by the kernels themselves."""

import math

import pytest
import torch

from regard.inspection.kernel_weights import weights_by_kernel
from regard.layers.masks import causal_mask
from regard.layers.scaled_dot_product import attention_weights, plain_attention


@pytest.mark.parametrize("src_len", [3, 4, 9])
def test_the_weights_of_a_kernel_are_its_outputs_for_one_hot_values(src_len):
    torch.manual_seed(0)
    query, key, value = torch.randn(2, 4, 3, 4), torch.randn(2, 2, src_len, 4), torch.randn(2, 2, src_len, 4)
    mask = torch.arange(src_len) < torch.tensor([src_len, 2])[:, None, None, None]
    found = weights_by_kernel(lambda values: plain_attention(query, key, values, mask), value)
    torch.testing.assert_close(found, attention_weights(query, key, mask))


@pytest.mark.parametrize(
    "change",
    [torch.tanh, lambda mixed: mixed + 1, lambda mixed: mixed.cumsum(dim=-1)],
    ids=["tanh", "plus one", "sums"],
)
def test_a_kernel_that_is_no_weighted_mean_has_no_weights(change):
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 5, 4)
    mask = causal_mask(5)
    with pytest.raises(ValueError, match="not a weighted mean"):
        weights_by_kernel(lambda values: change(plain_attention(query, key, values, mask)), value)


def test_values_of_half_precision_are_compared_to_their_rounding():
    torch.manual_seed(0)
    query, key, value = torch.randn(3, 1, 2, 40, 4, dtype=torch.bfloat16)
    weights = weights_by_kernel(lambda values: plain_attention(query, key, values), value)
    expected = ((query.float() @ key.float().transpose(2, 3)) / math.sqrt(4)).softmax(dim=-1)
    torch.testing.assert_close(weights.float(), expected, atol=0.02, rtol=0.05)
