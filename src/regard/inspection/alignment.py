"""Which source tokens a model looks at when it writes each target token, and which words that links.

An alignment's rows are target tokens and its columns source tokens, both without end marks. A link is a pair
(source place, target place), in Pharaoh's format `i-j`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError, DataError
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
    """Row t: where the model looks as it predicts `tgt_ids[t]`, having read those before it.

    The ids are without special ones. The weights are those of one decoder layer's attention to the
    source (the last one's), averaged over its heads or over some of them. What it gives to the source's
    end mark is left out, so a row sums to 1 or less.

    Raises:
        ConfigError: the model does not look at its source.
    """
    name = source_attentions(model)[layer]
    forced = translation_pass(model, src_ids, tgt_ids, bos_id=bos_id, eos_id=eos_id)
    with torch.no_grad(), record_attention(model, [name]) as recording:
        forced()
    weights = recording.weights(name)
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


# Which layer


@dataclass(frozen=True)
class Alignment:
    """The alignment that one layer tells, and why it was this one; `heads` None: the mean of all."""

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
    """As `align`, of the layer that tells it most clearly."""
    names = source_attentions(model)
    forced = translation_pass(model, src_ids, tgt_ids, bos_id=bos_id, eos_id=eos_id)
    with torch.no_grad(), record_attention(model, names) as recording:
        forced()
    return clearest_alignment({name: recording.weights(name) for name in names}, attention_sites(model))


def clearest_alignment(
    weights: Mapping[str, Float[Tensor, "_heads _rows _columns"]], attention_sites: Sequence[AttentionSite]
) -> Alignment:
    """The alignment of the layer whose mean weights are sharpest and leave the fewest source tokens out.

    `weights` are those of the cross-attentions among `attention_sites`, of a whole pass with both end marks. Layers
    are compared by `clearness`, where the mean of a layer's heads speaks for it: heads that look one place
    ahead or behind are as sharp as those that align, but rarely agree.

    Raises:
        ConfigError: there is no cross-attention among them.
    """
    crosses = [place for place in attention_sites if place.part == "cross" and place.name in weights]
    if not crosses:
        raise ConfigError("nothing here looks at a source", "an alignment needs a model with attention to it")
    means = {place.name: weights[place.name].float().mean(dim=0)[:-1, :-1] for place in crosses}
    found = {place.name: clearness(means[place.name]) for place in crosses}
    best = max(crosses, key=lambda place: (found[place.name], place.layer))
    others = ", ".join(f"layer {place.layer}: {found[place.name]:.2f}" for place in crosses if place != best)
    why = f"its weights are the clearest: sharpness x coverage {found[best.name]:.2f} ({others})"
    only = "it is the only layer that looks at the source"
    return Alignment(best.name, best.layer, None, why if others else only, means[best.name])


def clearness(weights: Float[Tensor, "tgt_len src_len"]) -> float:
    """Sharpness x coverage, each between 0 and 1.

    Sharpness: the mean over target tokens of the greatest weight on a source token, which is less where the
    end mark takes some. Coverage: the share of the source that is looked at, a token by 1 at most.
    """
    if not weights.numel():
        return 0.0
    return float(weights.amax(dim=1).mean() * weights.sum(dim=0).clamp(max=1).mean())


# Links


def best_links(weights: Float[Tensor, "tgt_len src_len"]) -> Links:
    """Each target token with the source token that it looks at most; none where the end mark has more."""
    if not weights.numel():
        return frozenset()
    most, best = weights.max(dim=1)
    linked = most >= 1 - weights.sum(dim=1)
    return frozenset((int(best[row]), row) for row in linked.nonzero()[:, 0].tolist())


def mutual_links(weights: Float[Tensor, "tgt_len src_len"]) -> Links:
    """Those of the best links that are the source token's best too: fewer, and surer."""
    if not weights.numel():
        return frozenset()
    of_source = weights.argmax(dim=0).tolist()
    return frozenset(link for link in best_links(weights) if of_source[link[0]] == link[1])


def links_above(weights: Float[Tensor, "tgt_len src_len"], threshold: float) -> Links:
    """All pairs with at least this weight: a target token may have several, or none."""
    return frozenset((column, row) for row, column in (weights >= threshold).nonzero().tolist())


def pharaoh(links: Iterable[tuple[int, int]]) -> str:
    """`i-j` of source place i and target place j, both from 0, apart by spaces."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))


def read_pharaoh(text: str) -> Links:
    """The links that such a line names.

    Raises:
        DataError: it is no such line.
    """
    pairs = [part.split("-") for part in text.split()]
    if not all(len(pair) == 2 and all(side.isdecimal() for side in pair) for pair in pairs):
        raise DataError(f"{text!r} is no alignment", "links are written as 0-0 1-2, source first, from 0")
    return frozenset((int(source), int(target)) for source, target in pairs)


def word_links(links: Iterable[tuple[int, int]], src_words: Sequence[int], tgt_words: Sequence[int]) -> Links:
    """Links of pieces -> links of words: the number of the word that each piece belongs to is given."""
    return frozenset((src_words[source], tgt_words[target]) for source, target in links)


# Against a reference


@dataclass(frozen=True)
class AlignmentScores:
    """How links agree with a reference (Och and Ney 2003); None where nothing was to be found."""

    precision: float | None  # the share of the links that are possible
    recall: float | None  # the share of the sure ones that were found
    error_rate: float | None  # AER


def alignment_scores(
    links: Collection[tuple[int, int]],
    sure: Collection[tuple[int, int]],
    possible: Collection[tuple[int, int]] = (),
) -> AlignmentScores:
    """What is sure is possible too."""
    made, wanted = set(links), set(sure)
    right, found = len(made & (wanted | set(possible))), len(made & wanted)
    total = len(made) + len(wanted)
    return AlignmentScores(
        precision=right / len(made) if made else None,
        recall=found / len(wanted) if wanted else None,
        error_rate=1 - (right + found) / total if total else None,
    )
