"""Our layers and PyTorch's, with the same weights, give the same numbers and the same gradients."""

import pytest
import torch
from torch import Tensor, nn

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import RESIDUALS, DecoderBlock, EncoderBlock
from regard.layers.feedforward import feed_forward
from regard.layers.masks import causal_mask, padding_mask
from regard.layers.norm import norm

WIDTH, HEADS, INNER = 16, 4, 32


def shaken(module: nn.Module) -> nn.Module:
    """Random weights, biases and gains: zeros and ones would hide a swapped pair."""
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    return module


def copy_linear(ours: nn.Linear, weight: Tensor, bias: Tensor) -> None:
    assert ours.weight.shape == weight.shape
    ours.weight.data, ours.bias.data = weight.data.clone(), bias.data.clone()


def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    copy_linear(ours.output, theirs.out_proj.weight, theirs.out_proj.bias)
    if isinstance(ours, SelfAttention):
        copy_linear(ours.query_key_value, theirs.in_proj_weight, theirs.in_proj_bias)
        return
    weights = (
        theirs.in_proj_weight.chunk(3)
        if theirs.in_proj_weight is not None
        else (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    )
    for projection, weight, bias in zip(
        (ours.query, ours.key, ours.value), weights, theirs.in_proj_bias.chunk(3), strict=True
    ):
        copy_linear(projection, weight, bias)


def copy_block(ours: EncoderBlock | DecoderBlock, theirs: nn.Module) -> None:
    copy_attention(ours.self_attention, theirs.self_attn)
    norms = [ours.around_self_attention.norm]
    if isinstance(ours, DecoderBlock):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        norms.append(ours.around_cross_attention.norm)
    norms.append(ours.around_feed_forward.norm)
    for i, ours_norm in enumerate(norms, start=1):
        ours_norm.load_state_dict(getattr(theirs, f"norm{i}").state_dict())
    copy_linear(ours.feed_forward.inner, theirs.linear1.weight, theirs.linear1.bias)
    copy_linear(ours.feed_forward.outer, theirs.linear2.weight, theirs.linear2.bias)


def assert_same(ours: Tensor, theirs: Tensor, *inputs: Tensor) -> None:
    """Outputs and gradients; dense weights make the latter large, so they are compared relatively."""
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=1e-5)
    toward = torch.randn(ours.shape, generator=torch.Generator().manual_seed(2))
    for mine, yours in zip(
        torch.autograd.grad(ours, inputs, toward), torch.autograd.grad(theirs, inputs, toward), strict=True
    ):
        torch.testing.assert_close(mine, yours, atol=1e-5, rtol=1e-4)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize(("kdim", "vdim"), [(None, None), (6, 10), (16, 10), (6, 6)])
@pytest.mark.parametrize("masked", [False, True])
def test_attention_is_that_of_pytorch_for_any_widths_of_keys_and_values(kdim, vdim, masked):
    theirs = shaken(nn.MultiheadAttention(WIDTH, HEADS, kdim=kdim, vdim=vdim, batch_first=True))
    ours = MultiHeadAttention(WIDTH, HEADS, key_dim=kdim, value_dim=vdim)
    copy_attention(ours, theirs)
    x, key, value = drawn(3, 4, WIDTH), drawn(3, 6, kdim or WIDTH, seed=1), drawn(3, 6, vdim or WIDTH, seed=2)
    mask = padding_mask(torch.tensor([6, 2, 5]), 6) if masked else None
    blocked = ~mask[:, 0, 0] if mask is not None else None  # PyTorch's module says True = may not
    expected, _ = theirs(x, key, value, key_padding_mask=blocked, average_attn_weights=False)
    assert_same(ours(x, key, mask, values=value), expected, x, key, value)


def test_self_attention_is_that_of_pytorch():
    theirs = shaken(nn.MultiheadAttention(WIDTH, HEADS, batch_first=True))
    ours = SelfAttention(WIDTH, HEADS)
    copy_attention(ours, theirs)
    x, mask = drawn(3, 5, WIDTH), causal_mask(5)
    expected, _ = theirs(x, x, x, attn_mask=~mask[0, 0], need_weights=False)
    assert_same(ours(x, x, mask), expected, x)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_block_is_that_of_pytorch(norm_first, activation):
    theirs = shaken(
        nn.TransformerEncoderLayer(
            WIDTH, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=norm_first
        )
    )
    around = RESIDUALS["pre" if norm_first else "post"]
    ours = EncoderBlock(
        SelfAttention(WIDTH, HEADS),
        feed_forward(activation, WIDTH, INNER),
        lambda: around(lambda: norm("layer", WIDTH), 0.0),
    )
    copy_block(ours, theirs)
    x, mask = drawn(3, 6, WIDTH), padding_mask(torch.tensor([6, 2, 5]), 6)
    assert_same(ours(x, mask), theirs(x, src_key_padding_mask=~mask[:, 0, 0]), x)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_a_decoder_block_is_that_of_pytorch(norm_first, activation):
    theirs = shaken(
        nn.TransformerDecoderLayer(
            WIDTH, HEADS, INNER, 0.0, activation, batch_first=True, norm_first=norm_first
        )
    )
    around = RESIDUALS["pre" if norm_first else "post"]
    ours = DecoderBlock(
        SelfAttention(WIDTH, HEADS),
        MultiHeadAttention(WIDTH, HEADS),
        feed_forward(activation, WIDTH, INNER),
        lambda: around(lambda: norm("layer", WIDTH), 0.0),
    )
    copy_block(ours, theirs)
    x, memory = drawn(3, 4, WIDTH), drawn(3, 6, WIDTH, seed=1)
    mask, memory_mask = causal_mask(4), padding_mask(torch.tensor([6, 2, 5]), 6)
    expected = theirs(x, memory, tgt_mask=~mask[0, 0], memory_key_padding_mask=~memory_mask[:, 0, 0])
    assert_same(ours(x, memory, mask, memory_mask), expected, x, memory)
