"""What `regard.layers` offers: each is imported by its name alone, and built and called in a line."""

import inspect
import subprocess
import sys

import pytest
import torch

from regard import layers
from regard.layers.norm import norm

X, MEMORY = torch.randn(2, 5, 8), torch.randn(2, 7, 8)
LENGTHS = torch.tensor([5, 3])
NODES, EDGES = torch.randn(4, 6), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])


def around(kind):
    """A residual with its norm, called with a sub-layer."""
    return kind(lambda: norm("layer", 8), 0.1).eval()(X, torch.tanh)


LENGTH = {"original_length": 8}
EXAMPLES = {  # name -> what a line gives, and its shape
    "AdditiveAttention": lambda: layers.AdditiveAttention(6, 8).read(MEMORY),
    "BucketBias": lambda: layers.BucketBias(2, bidirectional=True)(5, 7),
    "ConvolutionModule": lambda: layers.ConvolutionModule(8, kernel_size=3)(X),
    "ConvolutionalSubsampling": lambda: layers.ConvolutionalSubsampling(8, 16, factor=2)(X, LENGTHS),
    "DecoderBlock": lambda: layers.DecoderBlock.of_size(8, 2, 16)(X, MEMORY, layers.causal_mask(5)),
    "DotAttention": lambda: layers.DotAttention(8, 8).read(MEMORY),
    "DynamicGraphAttention": lambda: layers.DynamicGraphAttention(6, 4, 2)(NODES, EDGES),
    "EncoderBlock": lambda: layers.EncoderBlock.of_size(d_model=8, num_heads=2, d_ff=16)(X),
    "FeedForward": lambda: layers.FeedForward(8, 16)(X),
    "GRU": lambda: layers.GRU(8, 6),
    "GatedFeedForward": lambda: layers.GatedFeedForward(8, 16)(X),
    "GeneralAttention": lambda: layers.GeneralAttention(6, 8).read(MEMORY),
    "GraphAttention": lambda: layers.GraphAttention(6, 4, 2)(NODES, EDGES),
    "GridPositions": lambda: layers.GridPositions(8, 3, 4, before=1)(3, 4),
    "InputConvolution": lambda: layers.InputConvolution(8, 3)(X, layers.padding_mask(LENGTHS, 5)[:, 0, 0]),
    "KeyValueCache": lambda: layers.SelfAttention(8, 2)(X, X, cache=layers.KeyValueCache()),
    "LSTM": lambda: layers.LSTM(8, 6),
    "LearnedPositions": lambda: layers.LearnedPositions(8, 64)(0, 5),
    "LinearBias": lambda: layers.LinearBias(2)(5, 5),
    "MultiHeadAttention": lambda: layers.MultiHeadAttention(d_model=8, num_heads=2)(X, MEMORY),
    "ParallelBlock": lambda: layers.ParallelBlock.of_size(d_model=8, num_heads=2, d_ff=16)(X),
    "PatchEmbedding": lambda: layers.PatchEmbedding(3, 2, 8)(torch.randn(2, 3, 4, 6)),
    "PostNorm": lambda: around(layers.PostNorm),
    "PreNorm": lambda: around(layers.PreNorm),
    "RMSNorm": lambda: layers.RMSNorm(8)(X),
    "RecurrentStack": lambda: layers.RecurrentStack("gru", 2, 8, 6, 0.0),
    "RelativePositions": lambda: layers.RelativePositions(8)(5),
    "RelativeSelfAttention": lambda: layers.RelativeSelfAttention(8, 2, layers.RelativePositions(8))(X, X),
    "ReorderedNorm": lambda: around(layers.ReorderedNorm),
    **{
        name: lambda name=name: layers.RotaryPositions(
            4, scaling=getattr(layers, name)(factor=2.0, **({} if name == "LinearScaling" else LENGTH))
        )(X[None, ..., :4])
        for name in ("DynamicScaling", "LinearScaling", "Llama3Scaling", "YarnScaling")
    },
    "RotaryPositions": lambda: layers.SelfAttention(8, 2, rotary=layers.RotaryPositions(4))(X, X),
    "SandwichNorm": lambda: around(layers.SandwichNorm),
    "SelfAttention": lambda: layers.SelfAttention(8, 2)(X, X, layers.causal_mask(5)),
    "SinusoidalPositions": lambda: layers.SinusoidalPositions(8)(0, 5),
    "StackedFrames": lambda: layers.StackedFrames(8, 16, factor=2)(X, LENGTHS),
    "TokenEmbedding": lambda: layers.TokenEmbedding(10, 8)(torch.tensor([[1, 2], [3, 0]])),
    "attention_weights": lambda: layers.attention_weights(X[:, None], MEMORY[:, None]),
    "causal_mask": lambda: layers.causal_mask(5),
    "document_mask": lambda: layers.document_mask(torch.tensor([[0, 0, 1]])),
    "feed_forward": lambda: layers.feed_forward("swiglu", 8, 16)(X),
    "padding_mask": lambda: layers.padding_mask(LENGTHS, 5),
    "prefix_mask": lambda: layers.prefix_mask(LENGTHS, 5),
    "window_mask": lambda: layers.window_mask(5, 2),
}


def test_each_has_an_example():
    assert sorted(layers.__all__) == sorted(EXAMPLES)
    assert set(layers.__all__) <= set(dir(layers))


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_is_built_in_a_line(name):
    torch.manual_seed(0)
    made = EXAMPLES[name]()
    if isinstance(made, torch.Tensor):
        assert made.numel()
        assert made.dtype == torch.bool or made.isfinite().all()
    else:
        assert sum(each.numel() for each in made.parameters())
    assert inspect.getdoc(getattr(layers, name))


def test_blocks_of_a_size_are_those_of_their_parts():
    torch.manual_seed(0)
    block = layers.DecoderBlock.of_size(
        8, 2, 16, d_memory=12, norm_position="post", normalisation="rms", activation="swiglu"
    )
    assert block(X, torch.randn(2, 7, 12)).shape == X.shape
    assert isinstance(block.feed_forward, layers.GatedFeedForward)
    assert isinstance(block.around_self_attention, layers.PostNorm)
    assert isinstance(block.around_feed_forward.norm, layers.RMSNorm)
    assert block.around_self_attention is not block.around_feed_forward
    with pytest.raises(ValueError, match="divisible"):
        layers.EncoderBlock.of_size(8, 3, 16)


def test_importing_one_file_does_not_import_all_and_an_unknown_name_is_refused():
    code = "import sys, regard.layers.masks; print('regard.layers.recurrent' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
    assert not hasattr(layers, "MultiHedAttention")
