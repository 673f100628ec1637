"""The `tokenize` argument of verbs: sacreBLEU's tokenisers, from `evaluation/tokenizers.py`."""

from regard.evaluation.tokenizers import TOKENIZE, Tokenize

__all__ = ["TOKENIZE", "Tokenize"]
