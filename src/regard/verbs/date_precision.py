"""How well a model of dates looks at what it writes: its alignment against the true one."""

from collections.abc import Iterable

from regard.data.corpus import Pair
from regard.data.date_alignment import date_origins
from regard.inspection.alignment import align_by_best_layer
from regard.verbs.translate import Translator


def date_precision(translator: Translator, pairs: Iterable[Pair]) -> float | None:
    """The share of the links of a model of characters that are right, of dates and their ISO forms.

    The right form is forced, and links to its digits are counted: a link is right that leads to the very
    digit, or into the name of the month. None where there is no link.
    """
    tokenizers = translator.loaded.tokenizers
    made = right = 0
    for pair in pairs:
        origins = date_origins(pair.source, pair.target)
        found = align_by_best_layer(
            translator.model,
            tokenizers.source.encode(pair.source),
            tokenizers.target.encode(pair.target),
            bos_id=tokenizers.target.bos_id,
            eos_id=tokenizers.source.eos_id,
        )
        for source, target in found.links():
            if target in origins:
                made += 1
                right += source in origins[target]
    return right / made if made else None
