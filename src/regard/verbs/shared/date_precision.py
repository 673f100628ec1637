"""The alignment precision of a model of dates, measured against the known alignment."""

from collections.abc import Iterable
from typing import cast

from regard.data.corpus import Pair
from regard.data.date_alignment import date_origins
from regard.inspection.alignment import align_by_best_layer
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.weights.model_folder import LoadedModel


def date_precision(loaded: LoadedModel, pairs: Iterable[Pair]) -> float | None:
    """The share of right alignment links of a character model that translates dates to ISO format.

    The reference translation is forced, and the links of its digits are counted. A link is right if it leads
    to the same digit of the source, or into the name of the month. None if there is no link.
    """
    model, tokenizers = cast(SequenceToSequence, loaded.model), loaded.tokenizers
    links = right = 0
    for pair in pairs:
        origins = date_origins(pair.source, pair.target)
        alignment = align_by_best_layer(
            model,
            tokenizers.source.encode(pair.source),
            tokenizers.target.encode(pair.target),
            bos_id=tokenizers.target.bos_id,
            eos_id=tokenizers.source.eos_id,
        )
        for source, target in alignment.links():
            if target in origins:
                links += 1
                right += source in origins[target]
    return right / links if links else None
