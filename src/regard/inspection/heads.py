"""Statistics of attention heads: entropy, distance, and the share of weight on certain tokens.

Previous-token, first-token and end heads follow Clark et al. 2019 ("What Does BERT Look At?"); duplicate and
induction heads Olsson et al. 2022; copying from a source See et al. 2017 (pointers); "aligning" compares
with a given alignment.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.errors import ConfigError
from regard.inspection.passes import AttentionSite, Part

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
Tokens = Sequence[Hashable]  # ids, or token texts where source and target have different vocabularies


@dataclass(frozen=True, kw_only=True)
class HeadStatistics:
    """Statistics of one head, averaged over the rows of a text; None where one does not apply.

    Rows of special tokens and rows that can attend only to themselves are left out; weight on special tokens
    counts. In a cross-attention a row stands for the token that is predicted there.
    """

    name: str  # of the attention
    part: Part
    layer: int
    head: int
    entropy: float | None  # of a row's weights, in nats
    distance: float | None  # weighted mean of |row - column|
    # shares of the weight, between 0 and 1:
    previous: float | None  # on the token before
    next: float | None  # on the token after
    same: float | None  # on the token itself
    duplicate: float | None  # on earlier copies of the token, in rows that have one
    induction: float | None  # on the token after an earlier copy of the token, in rows that have one
    first: float | None  # on the first token
    end: float | None  # on end-of-sequence tokens
    copying: float | None  # on source tokens equal to the predicted one, in rows that have one
    aligning: float | None  # on source tokens that the alignment links, in rows that have one


def head_statistics(
    site: AttentionSite,
    weights: Float[Tensor, "heads rows columns"],
    rows: Tokens,
    columns: Tokens,
    *,
    special: Collection[Hashable] = (),
    end: Hashable = None,
    links: Collection[tuple[int, int]] = (),
) -> list[HeadStatistics]:
    """The statistics of each head of one attention.

    Rows and columns of a cross-attention are the predicted target tokens and the source tokens; `links` are
    pairs (source position, target position) of an alignment for it.

    Raises:
        ConfigError: the weights have another number of rows or columns, or a link is beyond them.
    """
    _refuse_other_sizes(weights, rows, columns, links)
    weights = weights.detach().float()
    counted = _counted_rows(rows, special, causal=site.part == "decoder", device=weights.device)
    values = {"entropy": _mean(_entropy(weights), counted)}
    values |= {
        name: _share(weights, attended, counted)
        for name, attended in _attended_cells(site.part, rows, columns, end, links, weights.device).items()
    }
    if site.part != "cross":
        distance = torch.arange(len(rows), device=weights.device)[:, None] - torch.arange(
            len(columns), device=weights.device
        )
        values["distance"] = _mean((weights * distance.abs()).sum(-1), counted)
    return [
        HeadStatistics(
            name=site.name,
            part=site.part,
            layer=site.layer,
            head=head,
            **{name: found[head] if (found := values.get(name)) else None for name in STATISTICS},
        )
        for head in range(len(weights))
    ]


def _refuse_other_sizes(
    weights: Tensor, rows: Tokens, columns: Tokens, links: Collection[tuple[int, int]]
) -> None:
    height, width = len(rows), len(columns)
    if tuple(weights.shape[1:]) != (height, width):
        raise ConfigError(
            f"the weights have {weights.size(1)} rows and {weights.size(2)} columns for {height} and {width}"
            " tokens",
            "give the tokens of the pass that was recorded, in which each attention was called once",
        )
    for source, target in links:
        if not (0 <= source < width and 0 <= target < height):
            raise ConfigError(
                f"the link {source}-{target} is beyond {width} source and {height} target tokens",
                "links are pairs (source position, target position), from 0",
            )


def with_grid_distances(
    statistics: Sequence[HeadStatistics],
    weights: Float[Tensor, "heads positions positions"],
    columns: int,
    num_before: int,
) -> list[HeadStatistics]:
    """`statistics` of heads over image patches, with distances measured in the grid of patches.

    The patches are in rows of `columns` patches, after `num_before` other positions. The distance is that of
    patch centres, in patches, weighted by attention among patches (Dosovitskiy et al. 2021, figure 7).
    "previous" and "next" do not apply and become None.
    """
    patch_weights = weights.detach().float()[:, num_before:, num_before:]
    number = torch.arange(patch_weights.size(1), device=patch_weights.device)
    centres = torch.stack([number // columns, number % columns], dim=1).float()
    distances = (patch_weights * torch.cdist(centres, centres)).sum(dim=-1)
    means = (distances / patch_weights.sum(dim=-1).clamp_min(1e-9)).mean(dim=1).tolist()
    return [
        replace(each, distance=means[number], previous=None, next=None)
        for number, each in enumerate(statistics)
    ]


def _attended_cells(
    part: Part,
    rows: Tokens,
    columns: Tokens,
    end: Hashable,
    links: Collection[tuple[int, int]],
    device: torch.device,
) -> dict[str, Bool[Tensor, "rows columns"]]:
    """For each statistic, the cells whose weight it sums."""
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
    return {name: cells.to(device) for name, cells in found.items()}


def _equal(rows: Tokens, columns: Tokens) -> Bool[Tensor, "rows columns"]:
    numbers: dict[Hashable, int] = {}
    left = torch.tensor([numbers.setdefault(token, len(numbers)) for token in rows], dtype=torch.long)
    right = torch.tensor([numbers.setdefault(token, len(numbers)) for token in columns], dtype=torch.long)
    return left[:, None] == right


def _counted_rows(
    rows: Tokens, special: Collection[Hashable], *, causal: bool, device: torch.device
) -> Bool[Tensor, " rows"]:
    """True for rows that enter the averages."""
    counted = [token not in special and not (causal and row == 0) for row, token in enumerate(rows)]
    return torch.tensor(counted, dtype=torch.bool, device=device)


def _entropy(weights: Float[Tensor, "heads rows columns"]) -> Float[Tensor, "heads rows"]:
    return -torch.special.xlogy(weights, weights).sum(-1)


def _share(
    weights: Float[Tensor, "heads rows columns"],
    attended: Bool[Tensor, "rows columns"],
    counted: Bool[Tensor, " rows"],
) -> list[float] | None:
    """The mean weight on `attended` cells, over counted rows that have such a cell."""
    return _mean((weights * attended).sum(-1), counted & attended.any(-1))


def _mean(values: Float[Tensor, "heads rows"], counted: Bool[Tensor, " rows"]) -> list[float] | None:
    return values[:, counted].mean(dim=1).tolist() if counted.any() else None
