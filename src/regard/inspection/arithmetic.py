"""The arithmetic of one attention weight, from the query, key, mask and bias that were recorded."""

import math
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from regard.errors import ConfigError
from regard.inspection.recording import Recording, RowPosition
from regard.layers.softcapped import softcapped


@dataclass(frozen=True, kw_only=True)
class AttentionCell:
    """The attention weight of one query on one key, step by step (Vaswani et al. 2017, equation 1).

    weight = exp(score - log_sum) if `visible`, else 0; score = dot * scale + bias; dot is the sum of
    `products`. With a `softcap`, dot * scale is soft-capped before the bias is added. Query and key are the
    kernel's inputs: query-key norms, rotary positions and the model's own scale are applied. Exact to the
    rounding of float32.
    """

    name: str  # of the attention
    head: int
    row: int
    column: int
    query: Float[Tensor, " d_head"]
    key: Float[Tensor, " d_head"]
    value: Float[Tensor, " d_value"] | None  # None if values were not recorded
    products: Float[Tensor, " d_head"]
    dot: float
    scale: float  # 1 / sqrt(d_head)
    softcap: float | None
    bias: float
    score: float
    visible: bool  # the mask: True if the row may attend to the column
    log_sum: float  # log of the sum of exp(score) over visible columns; -inf if there is none
    weight: float


def weight_arithmetic(
    recording: Recording, name: str, head: int, row: int, column: int, *, at: int | RowPosition = 0
) -> AttentionCell:
    """One cell of a recording that has queries, keys, masks and biases; `at` is the row of the batch.

    Raises:
        ConfigError: the recording has no such head, row or column, or lacks one of these parts; or the
            attention has a kernel that is not one of regard's.
    """
    if name in recording.own_kernels:
        raise ConfigError(
            f"the arithmetic of {name} is not known: its attention kernel is not one of regard's",
            "its recorded weights are those that it used",
        )
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
    query_row, keys = query[number, row].float(), key[number].float()
    scale = 1 / math.sqrt(query.size(-1))
    biases = None if bias is None else bias[number % len(bias), row].float()
    visible = mask[number % len(mask), row]
    products = query_row * keys[column]
    scores, softcap = keys @ query_row * scale, recording.softcaps.get(name)
    scores = scores if softcap is None else softcapped(scores, softcap)
    scores = scores if biases is None else scores + biases
    log_sum = float(scores.where(visible, -math.inf).logsumexp(dim=0))
    dot, bias_value = float(products.sum()), 0.0 if biases is None else float(biases[column])
    scaled = dot * scale if softcap is None else softcap * math.tanh(dot * scale / softcap)
    score = scaled + bias_value
    return AttentionCell(
        name=name,
        head=head,
        row=row,
        column=column,
        query=query_row,
        key=keys[column],
        value=recording.value(name, at)[number, column].float()
        if "value" in recording.parts_of(name)
        else None,
        products=products,
        dot=dot,
        scale=scale,
        softcap=softcap,
        bias=bias_value,
        score=score,
        visible=bool(visible[column]),
        log_sum=log_sum,
        weight=math.exp(score - log_sum) if visible[column] else 0.0,
    )
