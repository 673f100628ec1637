"""The loss of an encoder-decoder on pairs without padding, where it is that of the padded batch."""

from typing import Any, cast

from jaxtyping import Float
from torch import Tensor

from regard.data.batch import Batch
from regard.data.packed_pairs import PackedPairs
from regard.fast.gpu_training import has_loss_of
from regard.fast.linear_cross_entropy import linear_cross_entropy, output_layer
from regard.fast.packed_rows import Sequences
from regard.fast.packed_training import has_packed_states, packed_states
from regard.models.encoder_decoder import EncoderDecoder
from regard.training.objective import CrossEntropy, Objective


def packed_of(model: Any, objective: Objective, batch: Batch) -> PackedPairs | None:
    """The pairs of a batch without padding, if `packed_loss` computes the objective from them.

    The model is one that `is_known_in_training`.
    """
    packed, output = getattr(batch, "packed", None), output_layer(model)
    if packed is None or output is None or type(objective) is not CrossEntropy:
        return None
    is_possible = (
        output.out_features > output.in_features  # as for padded batches
        and has_loss_of(output)
        and has_packed_states(model, packed.sizes.rows, packed.sizes.longest)
    )
    return packed if is_possible else None


def packed_loss(
    model: Any, objective: Objective, packed: PackedPairs
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """The objective, and the negative log-likelihood alone; both are sums over the targets, in nats."""
    transformer, longest = cast(EncoderDecoder, model), packed.sizes.longest
    source, target = (
        Sequences(each.positions, each.bounds, longest) for each in (packed.source, packed.target)
    )
    states = packed_states(transformer, packed.source.ids, source, packed.target.ids, target)
    smoothing = cast(CrossEntropy, objective).smoothing
    return linear_cross_entropy(states, transformer.output, packed.labels, smoothing)
