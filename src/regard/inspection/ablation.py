"""Ablation: how the log-probability of an answer changes when parts of a model are switched off.

The answer stays the same, so nothing is decoded again (Michel et al. 2019; Voita et al. 2019 for heads of
translation models). A prompt is not part of the answer. switches.py defines what "off" means.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.batches import deterministic
from regard.inspection.answer import answer_of, max_batch_size
from regard.inspection.numbers_given import refuse_other_indices, refuse_other_tokens
from regard.inspection.passes import ForcedPass, SequenceName, attention_sites
from regard.inspection.switches import Ablation, ablated, layer_names
from regard.models.sequence_to_sequence import SequenceToSequence

__all__ = ["Ablation", "Ablations", "ablate", "ablated", "ablations", "layer_names"]

# number of rows -> the model's output for that many copies of the example
ForwardRows = Callable[[int], Tensor]


@dataclass(frozen=True)
class HeadChange:
    """The effect of switching one head off."""

    name: str  # of its attention
    head: int
    change: float


@dataclass(frozen=True)
class LayerChange:
    """The effect of switching one block or sub-layer off."""

    name: str
    change: float


@dataclass(frozen=True)
class TokenChange:
    """The effect of hiding one input token."""

    position: int
    change: float


@dataclass(frozen=True, kw_only=True)
class Ablations:
    """The effect of each head, layer and token alone.

    `change` is the log-probability of the answer without that part, minus `baseline`. It is below 0 if the
    part supported the answer.
    """

    baseline: float  # nats
    heads: list[HeadChange]
    layers: list[LayerChange]  # blocks, each followed by its sub-layers
    tokens: list[TokenChange]  # of the sequence that `ablatable_sequence` names


def ablate(forced: ForcedPass, ablation: Ablation) -> float:
    """The change of the answer's log-probability, in nats, with all parts of `ablation` off at once.

    Raises:
        ConfigError: the model has no such part, or its answer has no probability.
    """
    baseline, without = _log_probs(forced, [Ablation(), ablation])
    return without - baseline


def ablations(
    forced: ForcedPass, *, heads: bool = True, layers: bool = True, tokens: bool = True
) -> Ablations:
    """The effect of each head, layer and token alone. Several ablations run as the rows of one batch."""
    each_head = [
        (site.name, head) for site in attention_sites(forced.model) for head in range(site.num_heads) if heads
    ]
    each_layer = layer_names(forced.model) if layers else []
    each_token = range(len(forced.sequences[ablatable_sequence(forced)]) if tokens else 0)
    requested = [
        Ablation(),
        *(Ablation(heads={name: [head]}) for name, head in each_head),
        *(Ablation(layers=[name]) for name in each_layer),
        *(Ablation(tokens=[position]) for position in each_token),
    ]
    baseline, *without = _log_probs(forced, requested)
    changes = iter([log_prob - baseline for log_prob in without])
    return Ablations(
        baseline=baseline,
        heads=[HeadChange(name, head, next(changes)) for name, head in each_head],
        layers=[LayerChange(name, next(changes)) for name in each_layer],
        tokens=[TokenChange(position, next(changes)) for position in each_token],
    )


def ablatable_sequence(forced: ForcedPass) -> SequenceName:
    """The sequence whose tokens can be switched off: the source, a text, or a decoder's input."""
    return forced.input_name


@torch.no_grad()
def _log_probs(forced: ForcedPass, requested: Sequence[Ablation]) -> list[float]:
    """The log-probability of the answer under each ablation, in nats."""
    answer, length = answer_of(forced), len(forced.sequences[ablatable_sequence(forced)])
    for each in requested:
        tokens = refuse_other_indices("the text", "tokens", each.tokens, None, needs_one=False)
        refuse_other_tokens(tokens, length)
    found = [0.0] * len(requested)
    with deterministic([forced.model]):
        for forward, numbers in _groups(forced, requested):
            for chunk in _chunks(numbers, max_batch_size(forced)):
                with ablated(forced.model, *(requested[number] for number in chunk)):
                    log_probs = answer.log_probs(forward(len(chunk))).double().sum(dim=1)
                for number, log_prob in zip(chunk, log_probs.tolist(), strict=True):
                    found[number] = log_prob
    return found


def _groups(forced: ForcedPass, requested: Sequence[Ablation]) -> list[tuple[ForwardRows, list[int]]]:
    """Forward functions and the ablations each one runs. Ablations of the decoder alone share one memory."""
    model, inputs = forced.model, forced.inputs

    def full_forward(rows: int) -> Tensor:
        return model(*(each.expand(rows, *each.shape[1:]) for each in inputs))

    if not isinstance(model, SequenceToSequence):
        return [(full_forward, list(range(len(requested))))]
    source, lengths, read = inputs
    memory = model.encode(source, lengths)

    def decoder_forward(rows: int) -> Tensor:
        return model.decode(read.expand(rows, -1), memory.select(read.new_zeros(rows)))

    reuse_memory = [number for number, each in enumerate(requested) if _spares_encoder(each)]
    rerun_encoder = [number for number in range(len(requested)) if number not in reuse_memory]
    return [(decoder_forward, reuse_memory), (full_forward, rerun_encoder)]


def _spares_encoder(ablation: Ablation) -> bool:
    return not ablation.tokens and not any(
        name.startswith("encoder.") for name in (*ablation.heads, *ablation.layers)
    )


def _chunks(numbers: Sequence[int], batch_size: int) -> Iterator[Sequence[int]]:
    return (numbers[start : start + batch_size] for start in range(0, len(numbers), batch_size))
