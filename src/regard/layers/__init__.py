"""The layers of the Transformer family, one idea per file; they import torch and jaxtyping alone.

    from regard.layers import EncoderBlock, MultiHeadAttention, causal_mask

    block = EncoderBlock.of_size(d_model=64, num_heads=4, d_ff=256)
    block(torch.randn(2, 10, 64), causal_mask(10)).shape  # (2, 10, 64)

A file is imported when one of its names is first used.
"""

from regard.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
