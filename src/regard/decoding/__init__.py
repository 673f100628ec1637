"""Decoding: greedy and beam search, sampling, constraints, forced scores."""

from regard.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
