"""The arithmetic of one cell of an attention, with the numbers that the model had."""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError
from regard.inspection.recording import Recording, RowPosition


@dataclass(frozen=True, kw_only=True)
class AttentionCell:
    """How one query comes to look at one key: Vaswani et al. 2017, equation 1, for a row and a column.

    weight = exp(score - log_sum) where `seen`, else 0; score = dot * scale + bias; dot is the sum of
    `products`. Query and key are as the kernel got them: norms, rotary positions and a scale of the model's
    own are in. Exact to the rounding of float32.
    """

    name: str  # of the attention
    head: int
    row: int
    column: int
    query: Float[Tensor, " d_head"]
    key: Float[Tensor, " d_head"]
    value: Float[Tensor, " d_value"] | None  # what the weight is a share of; None: not recorded
    products: Float[Tensor, " d_head"]
    dot: float
    scale: float  # 1 / sqrt(d_head)
    bias: float
    score: float
    seen: bool  # the mask: whether the row may look there
    log_sum: float  # log of the sum of exp(score) over the columns that the row may look at; -inf: none
    weight: float


def arithmetic(
    recording: Recording, name: str, head: int, row: int, column: int, *, at: int | RowPosition = 0
) -> AttentionCell:
    """The cell of a recording with queries, keys, masks and biases; `at`: which row of the batch.

    Raises:
        ConfigError: there is no such head, row or column in it, or something is missing.
    """
    if name in recording.heads and head not in recording.heads[name]:
        raise ConfigError(
            f"head {head} of {name} is not recorded",
            f"recorded: {', '.join(map(str, recording.heads[name]))}",
        )
    query, key = recording.query(name, at), recording.key(name, at)
    mask, bias = recording.mask(name, at), recording.bias(name, at)
    rows, columns = query.size(1), key.size(1)
    if not (0 <= row < rows and 0 <= column < columns):
        raise ConfigError(
            f"{name} has no cell ({row}, {column})", f"it has {rows} rows and {columns} columns"
        )
    number = recording.heads[name].index(head)
    query_here, keys = query[number, row].float(), key[number].float()
    scale = 1 / math.sqrt(query.size(-1))
    biases = None if bias is None else bias[number % len(bias), row].float()
    seen = mask[number % len(mask), row]
    products = query_here * keys[column]
    scores = keys @ query_here * scale
    scores = scores if biases is None else scores + biases
    log_sum = float(scores.where(seen, -math.inf).logsumexp(dim=0))
    dot, added = float(products.sum()), 0.0 if biases is None else float(biases[column])
    score = dot * scale + added
    return AttentionCell(
        name=name,
        head=head,
        row=row,
        column=column,
        query=query_here,
        key=keys[column],
        value=recording.value(name, at)[number, column].float() if "value" in recording.parts else None,
        products=products,
        dot=dot,
        scale=scale,
        bias=added,
        score=score,
        seen=bool(seen[column]),
        log_sum=log_sum,
        weight=math.exp(score - log_sum) if seen[column] else 0.0,
    )
