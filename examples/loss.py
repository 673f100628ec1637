"""A loss of one's own: focal loss (Lin et al. 2017) instead of cross-entropy.

    python examples/loss.py

A recipe names it: `[training] loss = "focal"`, and may set gamma: `loss_options = { gamma = 3.0 }`. Reports
and validation still show the cross-entropy.
"""

import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor

import regard
from regard.training import register_loss


@register_loss("focal")
def focal(
    logits: Float[Tensor, "targets classes"], labels: Int64[Tensor, " targets"], *, gamma: float = 2.0
) -> Float[Tensor, " targets"]:
    """(1 - p)^gamma times the cross-entropy: targets that are likely already count little."""
    nll = F.cross_entropy(logits, labels, reduction="none")
    return (1 - (-nll).exp()) ** gamma * nll


SMALL = [  # sequences of five symbols, learned in seconds
    *(f"data.{part}.length=5" for part in ("train", "valid", "test")),
    "data.train.size=10000",
    "data.test.size=100",
    "batches.batch_tokens=700",
    "training.max_steps=300",
]

if __name__ == "__main__":
    run = regard.train("reverse", out="runs/focal", overrides=['training.loss="focal"', *SMALL], quiet=True)
    print(regard.translate("3 1 4 1 5", model=run.model))
