"""sacreBLEU's tokenisers as verbs take them; declared in `evaluation/tokenizers.py`."""

from regard.evaluation.tokenizers import TOKENIZE, Tokenize

__all__ = ["TOKENIZE", "Tokenize"]
