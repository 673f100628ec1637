"""What an answer loses when one part of a model is switched off, or each part by itself.

The measure is the log-probability of the same answer, so nothing is decoded anew (Michel et al. 2019;
Voita et al. 2019 looked at heads of translation models in this way). A prompt is no part of the answer.
What "off" means says switches.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.decoding.batches import deterministic
from regard.errors import ConfigError
from regard.inspection.answer import answer_of, max_batch_size
from regard.inspection.passes import ForcedPass, SequenceName, attention_sites
from regard.inspection.switches import Ablation, ablated, layer_names
from regard.models.sequence_to_sequence import SequenceToSequence

__all__ = ["Ablation", "Ablations", "ablate", "ablated", "ablations", "layer_names"]

Run = Callable[[int], Tensor]  # how many rows -> what the model gives, a row each


@dataclass(frozen=True)
class HeadChange:
    name: str  # of its attention
    head: int
    change: float


@dataclass(frozen=True)
class LayerChange:
    name: str
    change: float


@dataclass(frozen=True)
class TokenChange:
    position: int
    change: float


@dataclass(frozen=True, kw_only=True)
class Ablations:
    """`change`: log-probability of the answer without that one part, less `baseline`; below 0 it mattered."""

    baseline: float  # nats
    heads: list[HeadChange]
    layers: list[LayerChange]  # blocks, and the sub-layers of each
    tokens: list[TokenChange]  # of the source; where there is none of the text, or of what is read


def ablate(forced: ForcedPass, ablation: Ablation) -> float:
    """How much the log-probability of the answer changes, in nats, with all this off at once.

    Raises:
        ConfigError: there is no such part, or the model's answer has no probability.
    """
    baseline, without = _log_probs(forced, [Ablation(), ablation])
    return without - baseline


def ablations(
    forced: ForcedPass, *, heads: bool = True, layers: bool = True, tokens: bool = True
) -> Ablations:
    """Each head, layer and token off by itself; many at once are the rows of a batch."""
    each_head = [
        (place.name, head)
        for place in attention_sites(forced.model)
        for head in range(place.num_heads)
        if heads
    ]
    each_layer = layer_names(forced.model) if layers else []
    each_token = range(len(forced.sequences[token_sequence(forced)]) if tokens else 0)
    asked = [
        Ablation(),
        *(Ablation(heads={name: [head]}) for name, head in each_head),
        *(Ablation(layers=[name]) for name in each_layer),
        *(Ablation(tokens=[position]) for position in each_token),
    ]
    baseline, *without = _log_probs(forced, asked)
    changes = iter([log_prob - baseline for log_prob in without])
    return Ablations(
        baseline=baseline,
        heads=[HeadChange(name, head, next(changes)) for name, head in each_head],
        layers=[LayerChange(name, next(changes)) for name in each_layer],
        tokens=[TokenChange(position, next(changes)) for position in each_token],
    )


def token_sequence(forced: ForcedPass) -> SequenceName:
    """The sequence whose tokens can be switched off."""
    return next(name for name in ("source", "text", "read") if name in forced.sequences)


@torch.no_grad()
def _log_probs(forced: ForcedPass, asked: Sequence[Ablation]) -> list[float]:
    """How likely the answer is under each of these, in nats."""
    answer, length = answer_of(forced), len(forced.sequences[token_sequence(forced)])
    if beyond := [position for each in asked for position in each.tokens if position >= length]:
        raise ConfigError(f"no token stands at {beyond[0]}", f"positions go from 0 to {length - 1}")
    found = [0.0] * len(asked)
    with deterministic([forced.model]):
        for run, numbers in _groups(forced, asked):
            for chunk in _chunks(numbers, max_batch_size(forced)):
                with ablated(forced.model, *(asked[number] for number in chunk)):
                    log_probs = answer.log_probs(run(len(chunk))).double().sum(dim=1)
                for number, log_prob in zip(chunk, log_probs.tolist(), strict=True):
                    found[number] = log_prob
    return found


def _groups(forced: ForcedPass, asked: Sequence[Ablation]) -> list[tuple[Run, list[int]]]:
    """What the ablations are run by; those that leave an encoder as it is share what it has read."""
    model, inputs = forced.model, forced.inputs

    def whole(rows: int) -> Tensor:
        return model(*(each.expand(rows, *each.shape[1:]) for each in inputs))

    if not isinstance(model, SequenceToSequence):
        return [(whole, list(range(len(asked))))]
    source, lengths, read = inputs
    memory = model.encode(source, lengths)

    def decoder(rows: int) -> Tensor:
        return model.decode(read.expand(rows, -1), memory.select(read.new_zeros(rows)))

    upper = [number for number, each in enumerate(asked) if _leaves_encoder(each)]
    lower = [number for number in range(len(asked)) if number not in upper]
    return [(decoder, upper), (whole, lower)]


def _leaves_encoder(ablation: Ablation) -> bool:
    return not ablation.tokens and not any(
        name.startswith("encoder.") for name in (*ablation.heads, *ablation.layers)
    )


def _chunks(numbers: Sequence[int], at_once: int) -> Iterator[Sequence[int]]:
    return (numbers[start : start + at_once] for start in range(0, len(numbers), at_once))
