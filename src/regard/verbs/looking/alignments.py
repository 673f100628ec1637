"""What there is to see of heads and of what they do together: statistics, alignment, rollout."""

from dataclasses import asdict
from functools import partial
from typing import Any

from regard.inspection.heads import statistics_of
from regard.verbs.looking.watched import Maker, Resource, Watched, array


def alignments(watched: Watched) -> dict[str, Maker]:
    found: dict[str, Maker] = {}
    if watched.places:
        found["heads"] = partial(_heads, watched)
    if aligns(watched):
        found["alignment"] = partial(_alignment, watched)
    return found


def aligns(watched: Watched) -> bool:
    """Whether there is an attention from what is written to a source."""
    return any(place.part == "cross" for place in watched.places.values())


def _heads(watched: Watched) -> Resource:
    """Tokens are compared as they are spelt: the two sides may have vocabularies of their own."""
    sequences = watched.run.sequences
    special = {
        token
        for sequence in sequences.values()
        for token, mark in zip(sequence.tokens, sequence.special, strict=True)
        if mark
    }
    first = next(iter(sequences.values()))
    found = []
    for place in watched.places.values():
        rows = sequences["written" if place.part == "cross" else place.rows]
        found += statistics_of(
            place,
            watched.weights(place.name),
            rows.tokens,
            sequences[place.columns].tokens,
            special=special,
            end=first.tokens[-1] if first.special[-1] else None,
        )
    return [{name: _rounded(value) for name, value in asdict(each).items()} for each in found]


def _rounded(value: Any) -> Any:
    return round(value, 5) if isinstance(value, float) else value


def _alignment(watched: Watched) -> Resource:
    name = [place.name for place in watched.places.values() if place.part == "cross"][-1]
    return array(watched.weights(name).mean(dim=0))


def alignment_of(watched: Watched) -> dict[str, Any] | None:
    return None
