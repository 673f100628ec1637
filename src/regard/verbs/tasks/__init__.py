"""Tasks: what the recipe of each kind of training is, and how its data are read and scored."""

from regard.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
