"""What there is to see of heads and of what they do together: statistics, alignment, rollout."""

from dataclasses import asdict
from functools import partial
from typing import Any

from regard.inspection.alignment import Alignment, clearest_alignment, pharaoh
from regard.inspection.heads import statistics_of, with_grid_distances
from regard.inspection.passes import Part
from regard.inspection.rollout import rollout
from regard.verbs.views.recorded_pass import RecordedPass, Resource, ResourceFunction, to_array


def alignment_resources(watched: RecordedPass) -> dict[str, ResourceFunction]:
    found: dict[str, ResourceFunction] = {}
    if watched.places:
        found["heads"] = partial(_heads, watched)
    if has_cross_attention(watched):
        found["alignment"] = partial(_alignment, watched)
    parts: tuple[Part, ...] = ("encoder", "decoder")
    for part in parts:
        if any(place.part == part for place in watched.places.values()):
            found[f"rollout/{part}"] = partial(_rollout, watched, part)
    return found


def has_cross_attention(watched: RecordedPass) -> bool:
    """Whether there is an attention from what is written to a source."""
    return any(place.part == "cross" for place in watched.places.values())


def _heads(watched: RecordedPass) -> Resource:
    """Tokens are compared as they are spelt: the two sides may have vocabularies of their own."""
    sequences = watched.run.sequences
    special = {
        token
        for sequence in sequences.values()
        for token, mark in zip(sequence.tokens, sequence.special, strict=True)
        if mark
    }
    first = next(iter(sequences.values()))
    links = _clearest(watched).links() if has_cross_attention(watched) else ()
    found = []
    for place in watched.places.values():
        rows = sequences["written" if place.part == "cross" else place.rows]
        weights = watched.weights(place.name)
        own = statistics_of(
            place,
            weights,
            rows.tokens,
            sequences[place.columns].tokens,
            special=special,
            end=first.tokens[-1] if first.special[-1] else None,
            links=links if place.part == "cross" else (),
        )
        if (image := watched.run.image) is not None:
            own = with_grid_distances(own, weights, image.grid[1], image.before)
        found += own
    return [{name: _rounded(value) for name, value in asdict(each).items()} for each in found]


def _rounded(value: Any) -> Any:
    return round(value, 5) if isinstance(value, float) else value


def _alignment(watched: RecordedPass) -> Resource:
    """The mean of the heads of the layer that aligns, end marks and all."""
    return to_array(watched.weights(_clearest(watched).name).mean(dim=0))


def alignment_summary(watched: RecordedPass) -> dict[str, Any] | None:
    """Which layer aligns source and answer, why that one, and the tokens that it links."""
    if not has_cross_attention(watched):
        return None
    found = _clearest(watched)
    links = sorted(found.links())
    return {
        "name": found.name,
        "layer": found.layer,
        "heads": None if found.heads is None else list(found.heads),
        "why": found.why,
        "pharaoh": pharaoh(links),
        "pairs": [list(link) for link in links],
    }


def _clearest(watched: RecordedPass) -> Alignment:
    crosses = [place for place in watched.places.values() if place.part == "cross"]
    return clearest_alignment({place.name: watched.weights(place.name) for place in crosses}, crosses)


def _rollout(watched: RecordedPass, part: Part) -> Resource:
    places = [place for place in watched.places.values() if place.part == part]
    return to_array(rollout([watched.weights(place.name) for place in places]))
