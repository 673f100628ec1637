"""regard: the Transformer and its family; train it, run it, look inside it."""

__version__ = "0.1.0"
