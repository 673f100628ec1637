"""The `tokenize` argument of verbs: sacreBLEU's tokenisers, from `evaluation/tokenizers.py`."""

from regard.evaluation.tokenizers import TOKENIZERS, Tokenize

__all__ = ["TOKENIZERS", "Tokenize"]
