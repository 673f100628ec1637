"""The result of writing a new recipe for any task, and the choice of texts to hold out."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

HELD_OUT_TEXTS_SHARE = 0.1
MAX_HELD_OUT_TEXTS = 2000


@dataclass(frozen=True, kw_only=True)
class WrittenRecipe:
    """The text of a new recipe, and a report on its data.

    Attributes:
        counts: the number of training, validation and test examples.
        unit: what they are: "texts", "sentences", "characters".
        skipped: the number of examples that were left out, by reason.
        summary: the model and its training time, in words.
        warnings: problems of the data, a line each; `notes`: other remarks.
    """

    text: str
    counts: Mapping[str, int]
    unit: str
    summary: str
    skipped: Mapping[str, int] = field(default_factory=Counter)
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()


def split_digest(text: str) -> int:
    """A pseudo-random number that depends on the text alone: the first 64 bits of its SHA-256."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8])


def held_out(
    texts: Iterable[str], share: float = HELD_OUT_TEXTS_SHARE, limit: int = MAX_HELD_OUT_TEXTS
) -> set[int]:
    """The digests of the texts to hold out: the smallest ones, so the order of the texts does not matter.

    A repeated text counts once. Of two or more different texts at least one is held out and at least one is
    kept; of fewer none is held out.
    """
    digests = set(map(split_digest, texts))
    count = min(max(1, round(share * len(digests))), limit, max(0, len(digests) - 1))
    return set(heapq.nsmallest(count, digests))
