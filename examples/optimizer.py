"""An optimiser of one's own: Muon (Jordan et al. 2024) for the matrices of layers, AdamW for the rest.

    python examples/optimizer.py

A recipe names it: `[training.optimizer] kind = "muon"` and `options = { momentum = 0.9 }`.
"""

from typing import Any

import torch
from torch import Tensor

import regard
from regard.training import register_optimizer


@register_optimizer("muon")
def muon(groups: list[dict[str, Any]], *, momentum: float = 0.95) -> list[torch.optim.Optimizer]:
    """Both have the rate of the schedule: updates of Muon are scaled to the size of those of AdamW."""

    def part(matrices_of_layers: bool) -> list[dict[str, Any]]:
        found = []
        for group in groups:
            named = zip(group["names"], group["params"], strict=True)
            chosen = [each for each in named if _is_matrix_of_layer(*each) == matrices_of_layers]
            found.append({**group, "names": [name for name, _ in chosen], "params": [w for _, w in chosen]})
        return found

    return [
        torch.optim.Muon(part(True), momentum=momentum, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(part(False), betas=(0.9, 0.98)),
    ]


def _is_matrix_of_layer(name: str, weight: Tensor) -> bool:
    return weight.ndim == 2 and "blocks." in name


SMALL = [  # sequences of five symbols, learned in seconds
    *(f"data.{part}.length=5" for part in ("train", "valid", "test")),
    "data.train.size=10000",
    "data.test.size=100",
    "batches.batch_tokens=700",
    "training.max_steps=300",
]

if __name__ == "__main__":
    settings = ['training.optimizer.kind="muon"', "training.optimizer.options.momentum=0.9"]
    run = regard.train("reverse", out="runs/muon", overrides=[*settings, *SMALL], quiet=True)
    print(regard.translate("3 1 4 1 5", model=run.model))
