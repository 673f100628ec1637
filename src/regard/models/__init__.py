"""Models built from layers, each with its own config class, and LoRA adapters for them."""

from regard.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
