"""Which source tokens a model looks at when it writes each target token."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError
from regard.inspection.record import record_attention
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.recurrent import SourceAttention
from regard.models.sequence_to_sequence import SequenceToSequence


def align(
    model: SequenceToSequence,
    src_ids: Sequence[int],
    tgt_ids: Sequence[int],
    *,
    bos_id: int,
    eos_id: int,
    layer: int = -1,
    heads: Sequence[int] | None = None,
) -> Float[Tensor, "tgt_len src_len"]:
    """Row t: where the model looks as it predicts `tgt_ids[t]`, having read those before it.

    The ids are without special ones. The weights are those of one decoder layer's attention to the
    source (the last one's), averaged over its heads or over some of them. What it gives to the source's
    end mark is left out, so a row sums to 1 or less.

    Raises:
        ConfigError: the model does not look at its source.
    """
    source, target = [*src_ids, eos_id], [bos_id, *tgt_ids]
    device = next(model.parameters()).device
    name = source_attentions(model)[layer]
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), record_attention(model, [name]) as recording:
            model(
                torch.tensor([source], device=device),
                torch.tensor([len(source)], device=device),
                torch.tensor([target], device=device),
            )
    finally:
        model.train(training)
    (weights,) = recording.whole(name)
    if heads is not None:
        weights = weights[list(heads)]
    return weights.mean(dim=0)[:-1, :-1].cpu()


def source_attentions(model: SequenceToSequence) -> list[str]:
    """The names of the attentions with which the decoder looks at the source, the lowest layer's first."""
    names = [
        name
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention | SourceAttention) and not isinstance(module, SelfAttention)
    ]
    if not names:
        raise ConfigError(
            "this model has no attention to its source: all it knows of it is one vector",
            "an alignment needs a model with attention",
        )
    return names
