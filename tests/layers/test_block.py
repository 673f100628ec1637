"""Blocks: the place of the norm, the place of dropout, masks and memory."""

import pytest
import torch
from torch import nn

from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.block import (
    RESIDUALS,
    DecoderBlock,
    EncoderBlock,
    ParallelBlock,
    PostNorm,
    PreNorm,
    ReorderedNorm,
    SandwichNorm,
)
from regard.layers.cache import KeyValueCache
from regard.layers.feedforward import FeedForward
from regard.layers.masks import causal_mask, padding_mask

WIDTH = 8


def drawn_norm() -> nn.LayerNorm:
    norm = nn.LayerNorm(WIDTH)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return norm


def decoder_block(position: str = "post", dropout: float = 0.0) -> DecoderBlock:
    torch.manual_seed(0)
    return DecoderBlock(
        SelfAttention(WIDTH, 2),
        MultiHeadAttention(WIDTH, 2),
        FeedForward(WIDTH, 16),
        lambda: RESIDUALS[position](drawn_norm, dropout),
    )


def test_the_norm_stands_where_its_name_says():
    """A notebook called x + norm(dropout(sublayer(x))) "before the residual": neither of the three."""
    x, sublayer = torch.randn(2, 3, WIDTH), nn.Linear(WIDTH, WIDTH)
    post, pre = PostNorm(drawn_norm, 0.0), PreNorm(drawn_norm, 0.0)
    sandwich, reordered = SandwichNorm(drawn_norm, 0.0), ReorderedNorm(drawn_norm, 0.0)
    torch.testing.assert_close(post(x, sublayer), post.norm(x + sublayer(x)))
    torch.testing.assert_close(pre(x, sublayer), x + sublayer(pre.norm(x)))
    expected = x + sandwich.norm_after(sublayer(sandwich.norm_before(x)))
    torch.testing.assert_close(sandwich(x, sublayer), expected)
    torch.testing.assert_close(reordered(x, sublayer), x + reordered.norm(sublayer(x)))


def test_a_pre_norm_may_add_to_another_residual():
    x, other, sublayer = torch.randn(2, 3, WIDTH), torch.randn(2, 3, WIDTH), nn.Linear(WIDTH, WIDTH)
    pre = PreNorm(drawn_norm, 0.0)
    torch.testing.assert_close(pre(x, sublayer, other), other + sublayer(pre.norm(x)))


@pytest.mark.parametrize("one_norm", [True, False])
def test_both_parts_of_a_parallel_block_read_its_input(one_norm):
    torch.manual_seed(0)
    attention, network = SelfAttention(WIDTH, 2), FeedForward(WIDTH, 16)
    block = ParallelBlock(attention, network, lambda: PreNorm(drawn_norm, 0.0), one_norm=one_norm)
    first, second = block.around_self_attention.norm, block.around_feed_forward.norm
    assert (first is second) == one_norm
    x, mask = torch.randn(2, 5, WIDTH), causal_mask(5)
    normed = first(x)
    expected = x + attention(normed, normed, mask) + network(second(x))
    torch.testing.assert_close(block(x, mask), expected)
    cache = KeyValueCache()
    parts = [block(x[:, [place]], cache=cache) for place in range(5)]
    torch.testing.assert_close(torch.cat(parts, dim=1), expected)


@pytest.mark.parametrize("position", ["pre", "sandwich", "reordered"])
def test_dropout_acts_on_what_the_sublayer_adds_and_not_on_the_residual(position):
    torch.manual_seed(0)
    around = RESIDUALS[position](lambda: nn.Identity(), 0.5)
    x = torch.full((1, 100, WIDTH), 2.0)
    changed = around(x, lambda y: torch.ones_like(y))
    assert set(changed.unique().tolist()) == {2.0, 4.0}


def test_dropout_of_a_post_norm_acts_before_the_sum():
    torch.manual_seed(0)
    around = PostNorm(lambda: nn.Identity(), 0.5)
    changed = around(torch.full((1, 100, WIDTH), 2.0), lambda y: torch.ones_like(y))
    assert set(changed.unique().tolist()) == {2.0, 4.0}


@pytest.mark.parametrize("position", list(RESIDUALS))
def test_an_encoder_block_sees_no_padding(position):
    """Notebooks gave the encoder no mask at all."""
    block = EncoderBlock(
        SelfAttention(WIDTH, 2), FeedForward(WIDTH, 16), lambda: RESIDUALS[position](drawn_norm, 0.0)
    )
    x, mask = torch.randn(2, 5, WIDTH), padding_mask(torch.tensor([5, 3]), 5)
    changed = x.clone()
    changed[1, 3:] = 7.0
    torch.testing.assert_close(block(changed, mask)[1, :3], block(x, mask)[1, :3])
    assert not torch.allclose(block(changed, None)[1, :3], block(x, None)[1, :3])


@pytest.mark.parametrize("position", list(RESIDUALS))
def test_a_decoder_block_sees_no_padding_of_the_memory_and_no_future(position):
    """Notebooks gave the cross-attention no mask, or called it causal."""
    block = decoder_block(position)
    x, memory = torch.randn(1, 4, WIDTH), torch.randn(1, 5, WIDTH)
    masks = causal_mask(4), padding_mask(torch.tensor([3]), 5)
    before = block(x, memory, *masks)
    padded, read_far, future = memory.clone(), memory.clone(), x.clone()
    padded[:, 3:], read_far[:, 2], future[:, 2:] = 7.0, 7.0, 7.0
    assert torch.equal(block(x, padded, *masks), before)
    assert torch.equal(block(future, memory, *masks)[:, :2], before[:, :2])
    assert (block(x, read_far, *masks) != before).any(dim=-1).all()  # the first target sees the last source


@pytest.mark.parametrize("position", list(RESIDUALS))
def test_a_decoder_block_reads_on_after_its_cache(position):
    block = decoder_block(position)
    x, memory = torch.randn(2, 5, WIDTH), torch.randn(2, 3, WIDTH)
    with torch.no_grad():
        at_once = block(x, memory, causal_mask(5))
        read, cache = block.read(memory), KeyValueCache()
        first = block(x[:, :3], read, causal_mask(3), cache=cache)
        rest = block(x[:, 3:], read, causal_mask(2, 5), cache=cache)
    torch.testing.assert_close(torch.cat([first, rest], dim=1), at_once)
