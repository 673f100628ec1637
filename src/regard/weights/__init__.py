"""Weights: models in files, pretrained models, averages. No pickle anywhere."""

from regard.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
