"""Training: batches and a model -> better weights (Vaswani et al. 2017, section 5)."""

from regard.training.losses import register_loss

__all__ = ["register_loss"]
