"""The work of `pairs.py` with the paper's base shape: 6 + 6 layers, d_model 512, d_ff 2048, 8 heads."""

from benchmarks.work.pairs import flop, ignored, labels, nll, prepared_task
from regard.verbs.tasks.task import Task

__all__ = ["flop", "ignored", "labels", "nll", "training_task"]

BASE = [
    "model.d_model=512",
    "model.num_heads=8",
    "model.d_ff=2048",
    "model.num_encoder_layers=6",
    "model.num_decoder_layers=6",
]


def training_task(dropout: str, *, small: bool = False) -> Task:
    """As in `pairs.py`."""
    return prepared_task(dropout, small=small, more=BASE)
