"""Training (Vaswani et al. 2017, section 5): objectives, optimisers, schedules and the training loop."""

from regard.training.losses import register_loss

__all__ = ["register_loss"]
