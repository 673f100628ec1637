"""The decoder states of an encoder-decoder in training on a GPU, of pairs without padding."""

from collections.abc import Iterable, Iterator
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn

from regard.fast.causal_attention import causal_attentions, causal_training_attention
from regard.fast.gpu_training import has_attention_of_sequences
from regard.fast.packed_rows import FusedRotaryPositions, Sequences, packing
from regard.fast.training_attention import training_attention
from regard.layers.attention import MultiHeadAttention
from regard.layers.block import DecoderBlock, EncoderBlock
from regard.layers.positions import LearnedPositions, RotaryPositions, SinusoidalPositions
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.parts import InputEmbedding


def packed_states(
    model: EncoderDecoder,
    src_ids: Int64[Tensor, " src_tokens"],
    source: Sequences,
    tgt_ids: Int64[Tensor, " tgt_tokens"],
    target: Sequences,
) -> Float[Tensor, "tgt_tokens d_model"]:
    """What `decoder_states` computes for each token of the targets, from sequences without padding.

    The model is one of which `has_packed_states`. The i-th target attends to the i-th source.
    """
    encoder, decoder = model.encoder, model.decoder
    with packing(source, source):
        x = _embedded(encoder.input, src_ids, source)
        for block in encoder.blocks:
            x = block(x)
        memory = encoder.norm(x)
    with packing(target, source):
        x = _embedded(decoder.input, tgt_ids, target)
        for block in decoder.blocks:
            x = block(x, memory)
        x = decoder.norm(x)
    return x[0] if decoder.scale == 1.0 else x[0] * decoder.scale


def _embedded(
    module: InputEmbedding, ids: Int64[Tensor, " tokens"], sequences: Sequences
) -> Float[Tensor, "1 tokens d_model"]:
    """What the module computes for ids at these positions."""
    x = module.embedding(ids[None])
    if module.positions is not None:
        x = x + F.embedding(sequences.positions, module.positions(0, sequences.longest))
    return module.dropout(module.norm(x))


def has_packed_states(model: nn.Module, num_sequences: int, longest: int) -> bool:
    """True if `packed_states` computes what the model does, for sequences of this number and length at most.

    The model is one that `is_known_in_training`.
    """
    if torch.compiler.is_compiling() or type(model) is not EncoderDecoder:
        return False
    if not model.config.source_end:  # packed attention would read the ends of sources
        return False
    if any(stack.position_bias is not None for stack in (model.encoder, model.decoder)):
        return False
    if not all(_has_positions(each, longest) for each in model.modules()):
        return False
    causal = set(causal_attentions(model))
    attentions = list(_attentions(model))
    heads = {(each.num_heads, each.d_head) for each, _ in attentions}
    return all(_looks_for_packing(each, is_causal, causal) for each, is_causal in attentions) and all(
        has_attention_of_sequences(model.output.weight, num_sequences, *each, longest) for each in heads
    )


def _attentions(model: EncoderDecoder) -> Iterator[tuple[MultiHeadAttention, bool]]:
    """Each attention, and whether it is causal."""
    for block in cast(Iterable[EncoderBlock], model.encoder.blocks):
        yield block.self_attention, False
    for block in cast(Iterable[DecoderBlock], model.decoder.blocks):
        yield block.self_attention, True
        yield block.cross_attention, False


def _looks_for_packing(attention: MultiHeadAttention, is_causal: bool, causal: set[nn.Module]) -> bool:
    """True if what the attention calls looks for `packing`, and has as many heads of keys as of queries."""
    expected = causal_training_attention if is_causal else training_attention
    return (
        attention.attend is expected
        and (attention in causal) == is_causal
        and attention.num_kv_heads == attention.num_heads
    )


def _has_positions(module: nn.Module, longest: int) -> bool:
    """True if the module has positions for sequences of this length, or needs none."""
    if isinstance(module, LearnedPositions):
        return module.max_positions >= longest
    if isinstance(module, RotaryPositions):
        limit = None if module.scaling is None else module.scaling.limit
        return type(module) is FusedRotaryPositions and (limit is None or limit >= longest)
    positions = module.positions if isinstance(module, InputEmbedding) else None
    return positions is None or type(positions) in (LearnedPositions, SinusoidalPositions)
