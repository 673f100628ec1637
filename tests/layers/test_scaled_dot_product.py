"""softmax(QK^T / sqrt(d_head)) V: golden numbers, and the fast form against the readable one."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.layers.masks import causal_mask, padding_mask
from regard.layers.scaled_dot_product import attention, attention_weights, fused_attention, plain_attention

KERNELS = [plain_attention, fused_attention, attention]
QUERY = torch.tensor([[1.0, 0, 1], [0, 1, 1]])[None, None]
KEY = torch.tensor([[1.0, 2, 1], [2, 1, 0]])[None, None]
VALUE = torch.tensor([[0.5, 0.8], [0.2, 0.3]])[None, None]


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


def test_the_weights_of_a_worked_example():
    expected = torch.tensor([[0.5, 0.5], [0.7604, 0.2396]])
    torch.testing.assert_close(attention_weights(QUERY, KEY)[0, 0], expected, atol=5e-5, rtol=0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_output_of_a_worked_example(kernel):
    expected = torch.tensor([[0.35, 0.55], [0.4281, 0.6802]])
    torch.testing.assert_close(kernel(QUERY, KEY, VALUE)[0, 0], expected, atol=5e-5, rtol=0)


def test_scores_are_divided_by_the_root_of_the_width_of_a_head():
    """A notebook divided by the root of the model's width: too small by sqrt(num_heads)."""
    query, key = drawn((1, 8, 2, 4), (1, 8, 3, 4))
    weights = attention_weights(query, key)
    log_ratio = (weights[..., 0] / weights[..., 1]).log()
    expected = (query * (key[:, :, [0]] - key[:, :, [1]])).sum(-1) / math.sqrt(4)
    torch.testing.assert_close(log_ratio, expected, atol=1e-5, rtol=1e-5)


@given(
    batch=st.integers(1, 3),
    kv_heads=st.integers(1, 2),
    group=st.integers(1, 3),
    tgt_len=st.integers(1, 6),
    src_len=st.integers(1, 20),
    d_head=st.sampled_from([1, 4, 8]),
    d_value=st.sampled_from([1, 4, 8]),
    masked=st.sampled_from(["no", "padding", "causal", "both", "any"]),
    biased=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_fused_kernel_agrees_with_the_reference_in_value_and_gradient(
    batch, kv_heads, group, tgt_len, src_len, d_head, d_value, masked, biased, seed
):
    heads = kv_heads * group
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, heads, tgt_len, d_head), (batch, kv_heads, src_len, d_head)]
    query, key, value = drawn(*shapes, (batch, kv_heads, src_len, d_value), seed=seed)
    bias = drawn((1, heads, tgt_len, src_len), seed=seed + 1)[0] if biased else None
    lengths = torch.randint(0, src_len + 1, (batch,), generator=generator)
    causal = causal_mask(tgt_len, src_len) if src_len >= tgt_len else torch.ones(1, 1, 1, src_len).bool()
    mask = {
        "no": None,
        "padding": padding_mask(lengths, src_len),
        "causal": causal,
        "both": causal & padding_mask(lengths, src_len),
        "any": torch.rand(batch, heads, tgt_len, src_len, generator=generator) < 0.4,
    }[masked]
    inputs = [query, key, value] + ([bias] if bias is not None else [])
    toward = torch.randn(batch, heads, tgt_len, d_value, generator=generator)
    outputs, gradients = [], []
    for kernel in (plain_attention, fused_attention):
        outputs.append(kernel(query, key, value, mask, bias))
        gradients.append(torch.autograd.grad(outputs[-1], inputs, toward))
    torch.testing.assert_close(outputs[1], outputs[0], atol=1e-6, rtol=1e-6)
    for fused, plain in zip(gradients[1], gradients[0], strict=True):
        torch.testing.assert_close(fused, plain, atol=5e-6, rtol=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tgt_len", [1, 4])
@pytest.mark.parametrize("biased", [False, True])
def test_a_query_that_may_look_nowhere_gets_zeros_and_spoils_no_gradient(kernel, tgt_len, biased):
    """Notebooks gave NaN (-inf everywhere) or the mean of what is forbidden (-1e9 everywhere)."""
    query, key, value, bias = drawn((2, 2, tgt_len, 4), (2, 2, 3, 4), (2, 2, 3, 4), (1, 2, tgt_len, 3))
    mixed = kernel(query, key, value, padding_mask(torch.tensor([0, 2]), 3), bias if biased else None)
    assert (mixed[0] == 0).all()
    assert (mixed[1] != 0).any()
    mixed.sum().backward()
    for tensor in (query, key, value):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()
        assert (tensor.grad[0] == 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_masked_has_no_influence_however_large_it_is(kernel):
    """A finite -1e9 is added to: a score of 1e9 beside it wins through."""
    query, key, value = (tensor.detach() for tensor in drawn((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4)))
    mask = padding_mask(torch.tensor([3]), 5)
    before = kernel(query, key, value, mask)
    key[:, :, 3:], value[:, :, 3:] = 1e10, -1e10
    assert torch.equal(kernel(query, key, value, mask), before)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_masks_do_not_overflow_in_half_precision(kernel, dtype):
    """float16 cannot represent -1e9."""
    query, key, value = (
        tensor.detach().to(dtype) for tensor in drawn((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4))
    )
    mask = padding_mask(torch.tensor([2]), 5)
    mixed = kernel(query, key, value, mask)
    assert mixed.dtype == dtype
    exact = plain_attention(query.float(), key.float(), value.float(), mask)
    torch.testing.assert_close(mixed.float(), exact, atol=3e-2, rtol=3e-2)


@given(seed=st.integers(0, 100), lengths=st.lists(st.integers(1, 5), min_size=2, max_size=2))
def test_weights_sum_to_one_where_a_query_may_look_and_are_zero_where_it_may_not(seed, lengths):
    query, key = drawn((2, 2, 3, 4), (2, 2, 5, 4), seed=seed)
    mask = padding_mask(torch.tensor(lengths), 5)
    weights = attention_weights(query, key, mask)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 3))
    assert (weights.masked_select(~mask) == 0).all()


def test_a_position_bias_is_added_to_the_scores():
    query, key = drawn((1, 2, 3, 4), (1, 2, 5, 4))
    bias = torch.zeros(1, 2, 3, 5)
    bias[..., 4] = 2.0
    ratio = attention_weights(query, key, position_bias=bias) / attention_weights(query, key)
    torch.testing.assert_close(ratio[..., 4] / ratio[..., 0], torch.full((1, 2, 3), math.e**2))


@pytest.mark.parametrize("kernel", KERNELS)
def test_dropout_drops_weights_and_keeps_the_mean(kernel):
    query, key = (tensor.detach() for tensor in drawn((1, 1, 2000, 4), (1, 1, 8, 4)))
    torch.manual_seed(0)
    mixed = kernel(query * 0, key, torch.eye(8)[None, None], None, None, 0.25)  # the weights themselves
    dropped = (mixed == 0).float().mean().item()
    assert abs(dropped - 0.25) < 0.02
    torch.testing.assert_close(mixed[mixed != 0], torch.full_like(mixed[mixed != 0], 1 / 8 / 0.75))


def test_one_query_is_mixed_by_the_plain_kernel():
    """The last bits of the fused kernel depend on its shapes; a step of decoding must not."""
    query, key, value = (tensor.detach() for tensor in drawn((3, 2, 1, 4), (3, 2, 5, 4), (3, 2, 5, 4)))
    assert torch.equal(attention(query, key, value), plain_attention(query, key, value))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an accelerator")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_query_that_may_look_nowhere_gets_zeros_on_an_accelerator(dtype):
    query, key, value = (
        torch.randn(2, 4, 16, 32, device="cuda", dtype=dtype, requires_grad=True) for _ in range(3)
    )
    mixed = fused_attention(query, key, value, padding_mask(torch.tensor([0, 9], device="cuda"), 16))
    assert (mixed[0] == 0).all()
    mixed.sum().backward()
    assert all(tensor.grad is not None and tensor.grad.isfinite().all() for tensor in (query, key, value))
