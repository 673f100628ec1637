"""Layers put together: each model has a config, a forward and a name."""
