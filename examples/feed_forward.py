"""A feed-forward network of one's own: squared ReLU as its activation (So et al. 2021, "Primer").

    python examples/feed_forward.py

A recipe names it: `[model] activation = "squared_relu"`.
"""

import torch
from torch import Tensor

import regard
from regard.layers import FeedForward
from regard.models import TransformerConfig, register_feed_forward


def squared_relu(x: Tensor) -> Tensor:
    return torch.relu(x).square()


@register_feed_forward("squared_relu")
def network(config: TransformerConfig) -> FeedForward:
    bias, dropout = config.has_feed_forward_bias, config.activation_dropout
    return FeedForward(config.d_model, config.d_ff, squared_relu, dropout=dropout, bias=bias)


SMALL = [  # sequences of five symbols, learned in seconds
    *(f"data.{part}.length=5" for part in ("train", "valid", "test")),
    "data.train.size=10000",
    "data.test.size=100",
    "batches.batch_tokens=700",
    "training.max_steps=300",
]

if __name__ == "__main__":
    chosen = 'model.activation="squared_relu"'
    run = regard.train("reverse", out="runs/squared", overrides=[chosen, *SMALL], quiet=True)
    print(regard.translate("3 1 4 1 5", model=run.model))
