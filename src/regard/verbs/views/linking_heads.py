"""Which heads link two words: the weight that rows of the one give to columns of the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import DataError
from regard.inspection.passes import SequenceName
from regard.verbs.views.inspected_run import TokenSequence
from regard.verbs.views.recorded_pass import RecordedPass


@dataclass(frozen=True, kw_only=True)
class LinkingHead:
    """A head and the weight with which it links two words."""

    name: str  # of its attention
    layer: int
    head: int
    weight: float  # of the looking word's tokens, in the mean, on all tokens of the other together

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "layer": self.layer, "head": self.head, "weight": round(self.weight, 5)}


def heads_linking(watched: RecordedPass, seen: str, looking: str) -> list[LinkingHead]:
    """Every head that may look from the word `looking` at the word `seen`, the strongest first.

    Where there is a source, `seen` is a word of it and `looking` one that is written; else both are words of
    the text. A word of several tokens is looked at by their sum and looks by their mean (Clark et al. 2019,
    section 4.1). A number is the token at that position, counted from 0, where no token is spelt so.

    Raises:
        DataError: there is no such word, or no attention.
    """
    places = list(watched.places.values())
    crosses = [place for place in places if place.part == "cross"]
    found: list[LinkingHead] = []
    for place in crosses or places:
        rows: SequenceName = "written" if place.part == "cross" else place.rows
        own = _tokens(watched.run.sequences[rows], looking, rows)
        others = _tokens(watched.run.sequences[place.columns], seen, place.columns)
        weights = watched.weights(place.name)[:, own][:, :, others].sum(dim=2).mean(dim=1)
        found += [
            LinkingHead(name=place.name, layer=place.layer, head=head, weight=weight)
            for head, weight in enumerate(weights.tolist())
        ]
    if not found:
        raise DataError("this model has no attention, so no head links words", "name another model")
    return sorted(found, key=lambda each: -each.weight)


def _tokens(sequence: TokenSequence, word: str, name: str) -> list[int]:
    """Where the tokens of a word stand: of its first occurrence."""
    tokens = [token.strip() for token in sequence.tokens]
    for begin in range(len(tokens)):
        length = _spelt(tokens[begin:], word.strip())
        if length and tokens[begin]:  # a space before a word is no part of it
            return list(range(begin, begin + length))
    if word.isdecimal() and len(word) < 10 and int(word) < len(tokens):
        return [int(word)]
    known = ", ".join(f"{place} {token}" for place, token in enumerate(tokens[:40]))
    raise DataError(f"no token of the {name} is {word!r}", f"its tokens: {known}")


def _spelt(tokens: Sequence[str], word: str) -> int:
    """How many of the first tokens spell the word together; 0: they do not."""
    text = ""
    for count, token in enumerate(tokens, start=1):
        text += token
        if text == word:
            return count
        if not word.startswith(text):
            return 0
    return 0
