"""The layers of the Transformer family, one idea per file; they import torch and jaxtyping alone.

    from regard.layers import EncoderBlock, MultiHeadAttention, causal_mask

    block = EncoderBlock.of_size(d_model=64, num_heads=4, d_ff=256)
    block(torch.randn(2, 10, 64), causal_mask(10)).shape  # (2, 10, 64)

A file is imported when one of its names is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard.layers.attention import MultiHeadAttention, SelfAttention
    from regard.layers.block import (
        DecoderBlock,
        EncoderBlock,
        ParallelBlock,
        PostNorm,
        PreNorm,
        ReorderedNorm,
        SandwichNorm,
    )
    from regard.layers.cache import KeyValueCache
    from regard.layers.convolution import ConvolutionModule, InputConvolution
    from regard.layers.embedding import TokenEmbedding
    from regard.layers.feedforward import FeedForward, GatedFeedForward, feed_forward
    from regard.layers.graph import DynamicGraphAttention, GraphAttention
    from regard.layers.masks import causal_mask, document_mask, padding_mask, prefix_mask, window_mask
    from regard.layers.norm import RMSNorm
    from regard.layers.patches import GridPositions, PatchEmbedding
    from regard.layers.positions import (
        BucketBias,
        LearnedPositions,
        LinearBias,
        RotaryPositions,
        SinusoidalPositions,
    )
    from regard.layers.recurrent import (
        GRU,
        LSTM,
        AdditiveAttention,
        DotAttention,
        GeneralAttention,
        RecurrentStack,
    )
    from regard.layers.relative import RelativePositions, RelativeSelfAttention
    from regard.layers.rotary_scaling import DynamicScaling, LinearScaling, Llama3Scaling, YarnScaling
    from regard.layers.scaled_dot_product import attention_weights
    from regard.layers.subsampling import ConvolutionalSubsampling, StackedFrames

__all__ = [
    "GRU",
    "LSTM",
    "AdditiveAttention",
    "BucketBias",
    "ConvolutionModule",
    "ConvolutionalSubsampling",
    "DecoderBlock",
    "DotAttention",
    "DynamicGraphAttention",
    "DynamicScaling",
    "EncoderBlock",
    "FeedForward",
    "GatedFeedForward",
    "GeneralAttention",
    "GraphAttention",
    "GridPositions",
    "InputConvolution",
    "KeyValueCache",
    "LearnedPositions",
    "LinearBias",
    "LinearScaling",
    "Llama3Scaling",
    "MultiHeadAttention",
    "ParallelBlock",
    "PatchEmbedding",
    "PostNorm",
    "PreNorm",
    "RMSNorm",
    "RecurrentStack",
    "RelativePositions",
    "RelativeSelfAttention",
    "ReorderedNorm",
    "RotaryPositions",
    "SandwichNorm",
    "SelfAttention",
    "SinusoidalPositions",
    "StackedFrames",
    "TokenEmbedding",
    "YarnScaling",
    "attention_weights",
    "causal_mask",
    "document_mask",
    "feed_forward",
    "padding_mask",
    "prefix_mask",
    "window_mask",
]

_FILES = {  # file -> what it has for others
    "attention": (
        "MultiHeadAttention",
        "SelfAttention",
    ),
    "block": (
        "DecoderBlock",
        "EncoderBlock",
        "ParallelBlock",
        "PostNorm",
        "PreNorm",
        "ReorderedNorm",
        "SandwichNorm",
    ),
    "cache": ("KeyValueCache",),
    "convolution": ("ConvolutionModule", "InputConvolution"),
    "embedding": ("TokenEmbedding",),
    "feedforward": (
        "FeedForward",
        "GatedFeedForward",
        "feed_forward",
    ),
    "graph": (
        "DynamicGraphAttention",
        "GraphAttention",
    ),
    "masks": (
        "causal_mask",
        "document_mask",
        "padding_mask",
        "prefix_mask",
        "window_mask",
    ),
    "norm": ("RMSNorm",),
    "patches": (
        "GridPositions",
        "PatchEmbedding",
    ),
    "positions": (
        "BucketBias",
        "LearnedPositions",
        "LinearBias",
        "RotaryPositions",
        "SinusoidalPositions",
    ),
    "rotary_scaling": ("DynamicScaling", "LinearScaling", "Llama3Scaling", "YarnScaling"),
    "recurrent": (
        "AdditiveAttention",
        "DotAttention",
        "GRU",
        "GeneralAttention",
        "LSTM",
        "RecurrentStack",
    ),
    "relative": (
        "RelativePositions",
        "RelativeSelfAttention",
    ),
    "scaled_dot_product": ("attention_weights",),
    "subsampling": (
        "ConvolutionalSubsampling",
        "StackedFrames",
    ),
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module 'regard.layers' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"regard.layers.{_FILE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
