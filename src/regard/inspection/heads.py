"""Statistics by which one finds heads: what each of them looks at, in numbers between 0 and 1.

Previous-token, first and end heads are those of Clark et al. 2019 ("What Does BERT Look At?"); duplicate and
induction heads those of Olsson et al. 2022; copying from a source that of See et al. 2017's pointers;
aligning is measured against an alignment that is given.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.inspection.passes import AttentionSite, Part, SequenceName
from regard.inspection.recording import Recording

Statistic = Literal[
    "entropy",
    "distance",
    "previous",
    "next",
    "same",
    "duplicate",
    "induction",
    "first",
    "end",
    "copying",
    "aligning",
]
STATISTICS: tuple[Statistic, ...] = get_args(Statistic)
Tokens = Sequence[Hashable]  # ids, or what they stand for where two sides have vocabularies of their own


@dataclass(frozen=True, kw_only=True)
class HeadStatistics:
    """What one head does, on average over the rows of a text; None where that has no meaning.

    Rows of special tokens do not count, nor one that can see nothing but itself; the weight on special
    tokens does. In a cross-attention a row stands for the token that is written there.
    """

    name: str  # of the attention
    part: Part
    layer: int
    head: int
    entropy: float | None  # of a row's weights, in nats
    distance: float | None  # |row - column|, weighed
    # shares of the weight:
    previous: float | None  # on the token before
    next: float | None  # on the token after
    same: float | None  # on the token itself
    duplicate: float | None  # on earlier copies of the token, in rows that have some
    induction: float | None  # on what came after an earlier copy of the token, in rows where something did
    first: float | None  # on the first token
    end: float | None  # on the end marks
    copying: float | None  # on source tokens equal to the one written, in rows that have some
    aligning: float | None  # on the source token that an alignment links, in rows that have one


def head_statistics(
    recording: Recording,
    places: Sequence[AttentionSite],
    sequences: Mapping[SequenceName, Tokens],
    *,
    special: Collection[Hashable] = (),
    end: Hashable = None,
) -> list[HeadStatistics]:
    """Of every head whose weights were recorded, in the order of `places`.

    `sequences` are the tokens by name, of which "written" is what a cross-attention's rows stand for.
    """
    found: list[HeadStatistics] = []
    for place in places:
        if place.name not in recording.heads:
            continue
        rows = sequences["written" if place.part == "cross" else place.rows]
        weights = recording.weights(place.name)
        found += statistics_of(
            place,
            weights,
            rows,
            sequences[place.columns],
            heads=recording.heads[place.name],
            special=special,
            end=end,
        )
    return found


def statistics_of(
    place: AttentionSite,
    weights: Float[Tensor, "heads rows columns"],
    rows: Tokens,
    columns: Tokens,
    *,
    heads: Sequence[int] | None = None,
    special: Collection[Hashable] = (),
    end: Hashable = None,
    links: Collection[tuple[int, int]] = (),
) -> list[HeadStatistics]:
    """The same for the weights of one attention; `heads` are their numbers, 0 and on if not given.

    `links` are the pairs (source place, target place) of an alignment, for a cross-attention.
    """
    weights = weights.detach().float()
    counted = _counted(rows, special, causal=place.part == "decoder", device=weights.device)
    values = {"entropy": _mean(_entropy(weights), counted)}
    values |= {
        name: _share(weights, looked_at, counted)
        for name, looked_at in _looked_at(place.part, rows, columns, end, links, weights.device).items()
    }
    if place.part != "cross":
        distance = torch.arange(len(rows), device=weights.device)[:, None] - torch.arange(
            len(columns), device=weights.device
        )
        values["distance"] = _mean((weights * distance.abs()).sum(-1), counted)
    return [
        HeadStatistics(
            name=place.name,
            part=place.part,
            layer=place.layer,
            head=head,
            **{name: found[number] if (found := values.get(name)) else None for name in STATISTICS},
        )
        for number, head in enumerate(range(len(weights)) if heads is None else heads)
    ]


def with_grid_distances(
    statistics: Sequence[HeadStatistics],
    weights: Float[Tensor, "heads places places"],
    columns: int,
    before: int,
) -> list[HeadStatistics]:
    """Those of patches that stand in a grid, row by row, behind `before` other places.

    Distance is that of patches' centres, in patches, of what patches look at in patches (Dosovitskiy et al.
    2021, figure 7). A token before and one after there is not.
    """
    among = weights.detach().float()[:, before:, before:]
    place = torch.arange(among.size(1), device=among.device)
    centres = torch.stack([place // columns, place % columns], dim=1).float()
    away = (among * torch.cdist(centres, centres)).sum(dim=-1) / among.sum(dim=-1).clamp_min(1e-9)
    means = away.mean(dim=1).tolist()
    return [
        replace(each, distance=means[number], previous=None, next=None)
        for number, each in enumerate(statistics)
    ]


def ranked(statistics: Sequence[HeadStatistics], by: Statistic) -> list[HeadStatistics]:
    """Those heads of which it is known: the greatest share first; the lowest entropy or distance first."""
    known = [each for each in statistics if getattr(each, by) is not None]
    return sorted(known, key=lambda each: getattr(each, by), reverse=by not in ("entropy", "distance"))


def strongest(
    weights: Mapping[str, Float[Tensor, "_heads _rows _columns"]],
    places: Sequence[AttentionSite],
    row: int,
    column: int,
    part: Part = "cross",
) -> list[tuple[AttentionSite, int, float]]:
    """The heads of a part by the weight that they give to one column in one row, the greatest first.

    So one finds the head that links two words.
    """
    found = [
        (place, head, weight)
        for place in places
        if place.part == part and place.name in weights
        for head, weight in enumerate(weights[place.name][:, row, column].tolist())
    ]
    return sorted(found, key=lambda each: -each[2])


def _looked_at(
    part: Part,
    rows: Tokens,
    columns: Tokens,
    end: Hashable,
    links: Collection[tuple[int, int]],
    device: torch.device,
) -> dict[str, Bool[Tensor, "rows columns"]]:
    """By statistic, the places whose weight it counts."""
    row, column = torch.arange(len(rows))[:, None], torch.arange(len(columns))
    equal = _equal(rows, columns)
    found = {"first": (column == 0).expand(len(rows), -1)}
    if any(token == end for token in columns):
        found["end"] = torch.tensor([token == end for token in columns]).expand(len(rows), -1)
    if part == "cross":
        linked = torch.zeros_like(equal)
        for source, target in links:
            linked[target, source] = True
        found |= {"copying": equal, "aligning": linked}
    else:
        earlier = equal & (column < row)
        after = torch.zeros_like(earlier)
        after[:, 1:] = earlier[:, :-1]
        found |= {
            "previous": column == row - 1,
            "same": column == row,
            "duplicate": earlier,
            "induction": after & (column != row),
        }
    if part == "encoder":
        found["next"] = column == row + 1
    return {name: places.to(device) for name, places in found.items()}


def _equal(rows: Tokens, columns: Tokens) -> Bool[Tensor, "rows columns"]:
    numbers: dict[Hashable, int] = {}
    left = torch.tensor([numbers.setdefault(token, len(numbers)) for token in rows], dtype=torch.long)
    right = torch.tensor([numbers.setdefault(token, len(numbers)) for token in columns], dtype=torch.long)
    return left[:, None] == right


def _counted(
    rows: Tokens, special: Collection[Hashable], *, causal: bool, device: torch.device
) -> Bool[Tensor, " rows"]:
    """The rows that say something of a head."""
    ordinary = [token not in special and not (causal and place == 0) for place, token in enumerate(rows)]
    return torch.tensor(ordinary, dtype=torch.bool, device=device)


def _entropy(weights: Float[Tensor, "heads rows columns"]) -> Float[Tensor, "heads rows"]:
    return -torch.special.xlogy(weights, weights).sum(-1)


def _share(
    weights: Float[Tensor, "heads rows columns"],
    looked_at: Bool[Tensor, "rows columns"],
    counted: Bool[Tensor, " rows"],
) -> list[float] | None:
    """The weight on these places, of rows that have one."""
    return _mean((weights * looked_at).sum(-1), counted & looked_at.any(-1))


def _mean(values: Float[Tensor, "heads rows"], counted: Bool[Tensor, " rows"]) -> list[float] | None:
    return values[:, counted].mean(dim=1).tolist() if counted.any() else None
