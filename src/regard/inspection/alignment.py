"""Alignments: the source tokens that a model attends to as it predicts each target token.

Rows of an alignment are target tokens and columns are source tokens, both without the end-of-sequence token.
A link is a pair (source position, target position), written `i-j` in the Pharaoh format.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError, DataError
from regard.inspection.numbers_given import refuse_other_indices
from regard.inspection.passes import AttentionSite, attention_sites, translation_pass
from regard.inspection.record import record_attention
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.recurrent import SourceAttention
from regard.models.sequence_to_sequence import SequenceToSequence

Links = frozenset[tuple[int, int]]


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
    """The cross-attention weights of one decoder layer, averaged over its heads or over those in `heads`.

    Row t has the weights with which the model predicts `tgt_ids[t]` from the ids before it. `src_ids` and
    `tgt_ids` have no special tokens. The weight on the source's end-of-sequence token is left out, so a row
    sums to 1 or less.

    Raises:
        ConfigError: the model has no attention to its source, or no such layer or head.
    """
    names = source_attentions(model)
    if isinstance(layer, bool) or not isinstance(layer, int) or not -len(names) <= layer < len(names):
        raise ConfigError(
            f"there is no layer {layer} with attention to the source", f"layers are 0 to {len(names) - 1}"
        )
    name = names[layer]
    forced = translation_pass(model, src_ids, tgt_ids, bos_id=bos_id, eos_id=eos_id)
    with torch.no_grad(), record_attention(model, [name]) as recording:
        forced()
    weights = recording.weights(name)
    if heads is not None:
        weights = weights[list(refuse_other_indices(name, "heads", heads, len(weights)))]
    return weights.mean(dim=0)[:-1, :-1].cpu()


def source_attentions(model: SequenceToSequence) -> list[str]:
    """The names of the model's attentions to the source, from the lowest layer to the highest.

    Raises:
        ConfigError: it has none.
    """
    names = attentions_to_source(model)
    if not names:
        raise ConfigError(
            "this model has no attention to its source: its decoder reads the source as one vector",
            "an alignment needs a model with attention",
        )
    return names


def attentions_to_source(model: SequenceToSequence) -> list[str]:
    """As `source_attentions`, or none."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention | SourceAttention) and not isinstance(module, SelfAttention)
    ]


# The choice of a layer


@dataclass(frozen=True)
class Alignment:
    """The alignment of one layer, and why this layer was chosen; `heads` is None for the mean of all."""

    name: str
    layer: int
    heads: tuple[int, ...] | None
    why: str
    weights: Float[Tensor, "tgt_len src_len"]

    def links(self) -> Links:
        return best_links(self.weights)


def align_by_best_layer(
    model: SequenceToSequence, src_ids: Sequence[int], tgt_ids: Sequence[int], *, bos_id: int, eos_id: int
) -> Alignment:
    """The alignment of the layer that `clearest_alignment` chooses; arguments are those of `align`."""
    names = source_attentions(model)
    forced = translation_pass(model, src_ids, tgt_ids, bos_id=bos_id, eos_id=eos_id)
    with torch.no_grad(), record_attention(model, names) as recording:
        forced()
    return clearest_alignment({name: recording.weights(name) for name in names}, attention_sites(model))


def clearest_alignment(
    weights: Mapping[str, Float[Tensor, "_heads _rows _columns"]], sites: Sequence[AttentionSite]
) -> Alignment:
    """The alignment of the layer with the greatest `clearness`.

    `weights` are those of the cross-attentions among `sites`, in a pass with both end-of-sequence tokens.
    The mean of a layer's heads is compared, because heads that attend one position ahead or behind are as
    sharp as heads that align, but rarely agree.

    Raises:
        ConfigError: `sites` has no cross-attention.
    """
    crosses = [site for site in sites if site.part == "cross" and site.name in weights]
    if not crosses:
        raise ConfigError("this model has no cross-attention", "an alignment needs attention to a source")
    means = {site.name: weights[site.name].float().mean(dim=0)[:-1, :-1] for site in crosses}
    found = {site.name: clearness(means[site.name]) for site in crosses}
    best = max(crosses, key=lambda site: (found[site.name], site.layer))
    others = ", ".join(f"layer {site.layer}: {found[site.name]:.2f}" for site in crosses if site != best)
    why = f"its weights are the clearest: sharpness x coverage {found[best.name]:.2f} ({others})"
    only = "it is the only layer with attention to the source"
    return Alignment(best.name, best.layer, None, why if others else only, means[best.name])


def clearness(weights: Float[Tensor, "tgt_len src_len"]) -> float:
    """Sharpness times coverage, each between 0 and 1.

    Sharpness is the mean over target tokens of the greatest weight on a source token. Coverage is the mean
    over source tokens of the weight they receive in total, at most 1 each.
    """
    if not weights.numel():
        return 0.0
    return float(weights.amax(dim=1).mean() * weights.sum(dim=0).clamp(max=1).mean())


# Links


def best_links(weights: Float[Tensor, "tgt_len src_len"]) -> Links:
    """A link from each target token to its source token of greatest weight.

    A target token has no link if the end-of-sequence token has a greater weight.
    """
    if not weights.numel():
        return frozenset()
    most, best = weights.max(dim=1)
    linked = most >= 1 - weights.sum(dim=1)
    return frozenset((int(best[row]), row) for row in linked.nonzero()[:, 0].tolist())


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """The links in the Pharaoh format: `i-j` of source position i and target position j, space-separated."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_pharaoh(text: str) -> Links:
    """The links of a line in the Pharaoh format.

    Raises:
        DataError: the line is not in this format.
    """
    pairs = [part.split("-") for part in text.split()]
    if not all(len(pair) == 2 and all(side.isdecimal() for side in pair) for pair in pairs):
        raise DataError(f"{text!r} is not an alignment", "links are written as 0-0 1-2, source first, from 0")
    return frozenset((int(source), int(target)) for source, target in pairs)


# Comparison with a reference


@dataclass(frozen=True)
class AlignmentScores:
    """Agreement of links with a reference alignment (Och and Ney 2003); None where the divisor is 0."""

    precision: float | None  # the share of the links that are possible
    recall: float | None  # the share of the sure links that were found
    error_rate: float | None  # AER


def alignment_scores(
    links: Collection[tuple[int, int]],
    sure: Collection[tuple[int, int]],
    possible: Collection[tuple[int, int]] = (),
) -> AlignmentScores:
    """Precision, recall and alignment error rate of `links`; each sure link counts as possible too."""
    links, sure = set(links), set(sure)
    correct, found = len(links & (sure | set(possible))), len(links & sure)
    total = len(links) + len(sure)
    return AlignmentScores(
        precision=correct / len(links) if links else None,
        recall=found / len(sure) if sure else None,
        error_rate=1 - (correct + found) / total if total else None,
    )
