"""How many subword tokens texts will have, before a tokeniser is trained.

Where words stand between spaces, BPE gives most of its vocabulary to the most frequent words, and spells
the others by pieces. Where they do not, a token has so many characters, by the script. Measured against
our BPE of 4,000, 8,000 and 10,000 tokens on Multi30k (en, de, fr), Tatoeba (en, de) and newstest (en, de):
8 % off at the most; on German without spaces 25 %.
"""

import re
from collections import Counter
from collections.abc import Sequence

from regard.data.scripts import Writing

WHOLE_WORDS = 0.8  # words of one token, as a share of the vocabulary
PIECE = 3.5  # characters of the pieces that spell another word, beside one more token
CHARACTERS_PER_TOKEN = {  # of text without spaces, by a vocabulary of 8,000
    "Han": 1.5,
    "Japanese": 2.4,
    "mixed": 2.5,
    "Thai": 3.5,
    "Lao": 3.5,
    "Khmer": 3.5,
    "Myanmar": 3.5,
    "Tibetan": 3.5,
    "Latin": 5.0,
}
GROWTH = 0.2  # tokens get longer as this power of the vocabulary
_WORDS = re.compile(r"\w+|[^\w\s]")


def estimated_tokens(texts: Sequence[str], writing: Writing, vocab_size: int) -> float:
    """Subword tokens of all `texts` by a BPE of `vocab_size` tokens that was trained on them."""
    if not writing.spaces:
        per_token = CHARACTERS_PER_TOKEN.get(writing.script, 3.5) * (vocab_size / 8000) ** GROWTH
        return sum(map(len, texts)) / per_token
    words = Counter(word for text in texts for word in _WORDS.findall(text))
    ranked = words.most_common()
    whole = int(WHOLE_WORDS * vocab_size)
    spelled = sum(count * (1 + len(word) / PIECE) for word, count in ranked[whole:] if len(word) > 1)
    return sum(count for word, count in ranked[:whole]) + spelled
