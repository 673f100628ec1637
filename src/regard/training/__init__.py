"""Training: batches and a model -> better weights (Vaswani et al. 2017, section 5)."""

from regard.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
