"""Heads ranked by the attention weight between two words."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.errors import DataError
from regard.inspection.numbers_given import is_whole
from regard.inspection.passes import SequenceName
from regard.verbs.views.inspected_run import TokenSequence
from regard.verbs.views.recorded_pass import RecordedPass

SHOWN = {"written": "answer", "read": "text"}  # names of sequences in messages


@dataclass(frozen=True, kw_only=True)
class LinkingHead:
    """A head and its attention weight between two words."""

    name: str  # of its attention
    layer: int
    head: int
    weight: float  # mean over the attending word's tokens of the summed weight on the attended word's tokens

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "layer": self.layer, "head": self.head, "weight": round(self.weight, 5)}


def heads_linking(recorded: RecordedPass, attended: str | int, attending: str | int) -> list[LinkingHead]:
    """Heads by their weight from the word `attending` on the word `attended`, the greatest first.

    With cross-attention, `attended` is a word of the source and `attending` one of the answer; otherwise
    both are words of the text. Weights on the tokens of a word are summed, weights from them averaged (Clark
    et al. 2019, section 4.1). A number means the token at that position, from 0, in a str if it is no word.

    Raises:
        DataError: there is no such word, or the model has no attention with weights.
    """
    sites = recorded.shown_sites
    cross_sites = [site for site in sites if site.part == "cross"]
    found: list[LinkingHead] = []
    for site in cross_sites or sites:
        rows: SequenceName = "written" if site.part == "cross" else site.rows
        attending_tokens = _tokens(recorded.run.sequences[rows], attending, rows)
        attended_tokens = _tokens(recorded.run.sequences[site.columns], attended, site.columns)
        weights = (
            recorded.weights(site.name)[:, attending_tokens][:, :, attended_tokens].sum(dim=2).mean(dim=1)
        )
        found += [
            LinkingHead(name=site.name, layer=site.layer, head=head, weight=weight)
            for head, weight in enumerate(weights.tolist())
        ]
    if not found and recorded.no_weights:
        name, why = next(iter(recorded.no_weights.items()))
        raise DataError(f"this model has no attention weights: of {name}, {why}", "name another model")
    if not found:
        raise DataError("this model has no attention heads", "name another model")
    return sorted(found, key=lambda each: -each.weight)


def _tokens(sequence: TokenSequence, word: str | int, name: str) -> list[int]:
    """The positions of the tokens of a word's first occurrence; a number is a position."""
    if is_whole(word) and 0 <= int(word) < len(sequence.tokens):
        return [int(word)]
    word = str(word)
    tokens = [token.strip() for token in sequence.tokens]
    for start in range(len(tokens)):
        length = _num_spelling(tokens[start:], word.strip())
        if length and tokens[start]:  # a word does not start with a token that is only a space
            return list(range(start, start + length))
    if word.isdecimal() and len(word) < 10 and int(word) < len(tokens):
        return [int(word)]
    known = ", ".join(f"{position} {token}" for position, token in enumerate(tokens[:40]))
    raise DataError(f"the {SHOWN.get(name, name)} has no token {word!r}", f"its tokens: {known}")


def _num_spelling(tokens: Sequence[str], word: str) -> int:
    """The number of first tokens that spell the word together; 0 if they do not."""
    text = ""
    for count, token in enumerate(tokens, start=1):
        text += token
        if text == word:
            return count
        if not word.startswith(text):
            return 0
    return 0
