"""Whether pairs are in the direction of a translation model, or in the other one."""

import itertools
import math
from collections.abc import Iterable
from typing import cast

from regard.data.corpus import Pair
from regard.decoding.scoring import forced_scores
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.weights.model_folder import LoadedModel

SCORED_PAIRS = 16
MAX_SIDE = 200  # characters of a side of a pair that is scored
# of the loss per character in the model's own direction, in that of the other one: 0.14 to 0.5 for the
# included model, and 0.65 for pairs of its source language and a third one
MOST_LOSS = 0.6


def direction_warning(loaded: LoadedModel, name: str, pairs: Iterable[Pair]) -> str | None:
    """A warning if `loaded` translates targets into sources; None if it does not.

    The first pairs of different, short sides are scored in both directions.
    """
    short = (
        (pair.source, pair.target)
        for pair in pairs
        if pair.source != pair.target and max(len(pair.source), len(pair.target)) <= MAX_SIDE
    )
    chosen = list(itertools.islice(short, SCORED_PAIRS))
    if not chosen or not isinstance(loaded.model, SequenceToSequence):
        return None
    own, other = (_loss(loaded, some) for some in (chosen, [(target, source) for source, target in chosen]))
    if not other < MOST_LOSS * own:
        return None
    return (
        f"{name} seems to translate in the other direction, from these targets to these sources: its loss is"
        f" {own:.1f} nats a character, and {other:.1f} with the sides exchanged"
    )


def _loss(loaded: LoadedModel, pairs: list[tuple[str, str]]) -> float:
    """The loss of the targets, in nats per character."""
    tokenizers = loaded.tokenizers
    ids = list(
        zip(
            tokenizers.source.encode_batch([source for source, _ in pairs]),
            tokenizers.target.encode_batch([target for _, target in pairs]),
            strict=True,
        )
    )
    target = tokenizers.target
    scores = forced_scores(
        cast(SequenceToSequence, loaded.model),
        ids,
        pad_id=target.pad_id,
        bos_id=target.bos_id,
        eos_id=target.eos_id,
    )
    return -math.fsum(score.log_prob for score in scores) / sum(len(text) for _, text in pairs)
