"""Data: corpora, tokenisers, examples, batches, a loader that resumes."""

from regard.lazy_names import lazy_names

__getattr__, __dir__ = lazy_names(__name__, __file__)
