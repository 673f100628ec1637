"""Training: batches and a model -> better weights (Vaswani et al. 2017, section 5)."""
