"""Training (Vaswani et al. 2017, section 5): objectives, optimisers, schedules and the training loop."""

from regard.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
