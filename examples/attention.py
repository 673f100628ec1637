"""A self-attention of one's own: sigmoid attention (Ramapuram et al. 2024) instead of softmax.

    python examples/attention.py

A recipe names it: `[model] attention = "sigmoid"`. It keeps the cache, the heads and the positions of
`SelfAttention`; only what is done with queries, keys and values is another.
"""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor

import regard
from regard.layers import SelfAttention
from regard.models import register_attention


@register_attention("sigmoid")
class SigmoidAttention(SelfAttention):
    """sigmoid(QK^T / sqrt(d_head) + bias - log(keys)) V: weights need not sum to 1."""

    def attend(
        self,
        query: Float[Tensor, "batch heads tgt_len d_head"],
        key: Float[Tensor, "batch kv_heads src_len d_head"],
        value: Float[Tensor, "batch kv_heads src_len d_head"],
        mask: Bool[Tensor, "..."] | None = None,
        position_bias: Float[Tensor, "..."] | None = None,
        dropout: float = 0.0,
    ) -> Float[Tensor, "batch heads tgt_len d_head"]:
        groups = query.size(1) // key.size(1)  # heads of queries that share one of keys and values
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        scores = query @ key.transpose(2, 3) / math.sqrt(query.size(3))
        if position_bias is not None:
            scores = scores + position_bias
        seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand_as(scores)
        count = seen.sum(dim=-1, keepdim=True).clamp(min=1)
        weights = (scores - count.log()).sigmoid().masked_fill(~seen, 0.0)
        return torch.dropout(weights, dropout, self.training) @ value


SMALL = [  # sequences of five symbols, learned in seconds
    *(f"data.{part}.length=5" for part in ("train", "valid", "test")),
    "data.train.size=10000",
    "data.test.size=100",
    "batches.batch_tokens=700",
    "training.max_steps=300",
]

if __name__ == "__main__":
    run = regard.train(
        "reverse", out="runs/sigmoid", overrides=['model.attention="sigmoid"', *SMALL], quiet=True
    )
    print(regard.translate("3 1 4 1 5", model=run.model))
