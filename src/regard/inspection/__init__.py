"""Inspection: record, ablate and attribute what a model computes, without changing the model's code."""

from regard.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
