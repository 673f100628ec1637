"""What a new recipe of any task was made of; how lines are held out, the same ones each time."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

SHARE = 0.1  # of the texts, held out to validate on
MOST = 2000  # texts held out


@dataclass(frozen=True, kw_only=True)
class WrittenRecipe:
    """What stands in a new recipe.

    Attributes:
        counts: how many examples there are to train on, to validate on and to test on.
        unit: what they are: "texts", "sentences", "characters".
        skipped: how many were left out, by the reason.
        summary: the model and how long it trains, in words.
        warnings: what looks wrong in the data, a line each; `notes`: what else should be known.
    """

    text: str
    counts: Mapping[str, int]
    unit: str
    summary: str
    skipped: Mapping[str, int] = field(default_factory=Counter)
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()


def digest(text: str) -> int:
    """The first 64 bits of the SHA-256 of a text: a number that is the text's own."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8])


def held_out(texts: Iterable[str], share: float = SHARE, most: int = MOST) -> set[int]:
    """The digests of the texts to validate on: the smallest of all, so the same ones in any order.

    A text that stands several times counts once; one text at least is held out and one kept.
    """
    digests = set(map(digest, texts))
    count = min(max(1, round(share * len(digests))), most, len(digests) - 1)
    return set(heapq.nsmallest(count, digests))
