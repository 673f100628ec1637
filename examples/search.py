"""A search of one's own: a beam that drops what is much worse than the best (Freitag & Al-Onaizan 2017).

    python examples/search.py

`search="pruned_beam"` in a call, `search = "pruned_beam"` in `[decoding]` of a recipe, and
`--search pruned_beam` name it. It takes the controls that it has fields for; `size` is the beam size.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

import regard
from regard.decoding import (
    BeamSearch,
    Candidates,
    FinishedHypotheses,
    HypothesisRows,
    RequestConstraints,
    register_search,
)


@register_search("pruned_beam")
@dataclass(frozen=True, kw_only=True)
class PrunedBeamSearch(BeamSearch):
    """A beam that drops what is `threshold` nats or more below the best candidate of its step."""

    threshold: float = 2.0

    def continued(
        self,
        rows: HypothesisRows,
        constraints: RequestConstraints,
        found: Candidates,
        greatest: Float64[np.ndarray, " sentences"],
        finished: FinishedHypotheses,
    ) -> Bool[np.ndarray, "sentences candidates"]:
        kept = super().continued(rows, constraints, found, greatest, finished)
        return kept & (found.total > found.total.max(axis=1, keepdims=True) - self.threshold)


if __name__ == "__main__":
    sentences = ["Where is the station?", "I lost my umbrella on the train yesterday."]
    for translation in regard.translate(sentences, search="pruned_beam", beam_size=8):
        print(translation)
