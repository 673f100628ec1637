"""Warnings of texts with tokens that a model does not know."""

from collections.abc import Sequence
from pathlib import Path

from regard import console
from regard.counted import counted
from regard.data.tokenizer import Tokenizer
from regard.recipe import read_toml
from regard.weights.model_folder import LoadedModel

MOSTLY = 1 / 3  # of a text's tokens: what is written in another script, or mostly in other letters
MOST_WORDS = 2 / 3  # of a text's, where rare words are unknown: another language, or another subject
UNKNOWN_PARTS = "characters or words that the model does not know"
NAMED = 10  # texts; of later ones their number is printed as it doubles


class UnknownTokens:
    """Warns of the first text with unknown tokens, and of each that is largely unknown.

    A file may have a rare character on every tenth line, and a line of warnings for each would hide those
    about the rest. A text in a script that the model never saw is answered with nonsense, and named; if there
    are many, as in a file in another language, the later ones are counted.

    Args:
        rare_words_unknown: rare words are unknown tokens, which the model has seen in training; only texts
            of which most words are unknown are named.
    """

    def __init__(self, unk_id: int, *, rare_words_unknown: bool = False) -> None:
        self._unk_id, self._is_on = unk_id, True
        self._rare_words_unknown = self._warned = rare_words_unknown
        self._named, self._next_count = 0, 2 * NAMED

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "UnknownTokens":
        """The warnings for texts of this tokeniser."""
        return cls(tokenizer.unk_id, rare_words_unknown=tokenizer.rare_words_unknown)

    @classmethod
    def of_model(cls, loaded: LoadedModel) -> "UnknownTokens":
        """The warnings for texts of a model, whose recipe says which words training knew."""
        tokenizer = loaded.tokenizers.source
        min_count = _min_count(loaded.path / "recipe.toml")
        is_usual = tokenizer.rare_words_unknown if min_count is None else min_count > 1
        return cls(tokenizer.unk_id, rare_words_unknown=is_usual)

    def switch_off(self) -> None:
        """For a server, whose log is not for the texts of its clients."""
        self._is_on = False

    def warn(self, name: str, ids: Sequence[int]) -> None:
        """Warn of a text, `name` in messages, if it is to be named."""
        unknown = ids.count(self._unk_id)
        least = MOST_WORDS if self._rare_words_unknown else MOSTLY
        if not (unknown and self._is_on) or (self._warned and unknown < least * len(ids)):
            return
        self._named += 1
        if self._named > NAMED:
            if self._named == self._next_count:
                self._next_count *= 2
                console.warn(f"{self._named:,} texts so far, {name} the last, have {UNKNOWN_PARTS}")
            return
        rest = "" if self._warned else "; later texts are named if a third of theirs or more are unknown"
        rest = "; later texts are counted" if self._named == NAMED else rest
        self._warned = True
        console.warn(
            f"{name} has {UNKNOWN_PARTS} ({unknown:,} of {counted(len(ids), 'token')}),"
            f" and the output may be wrong there{rest}"
        )


def _min_count(recipe: Path) -> int | None:
    """`tokenizer.min_count` of a recipe; None if it has none, or is not there."""
    table = read_toml(recipe)[0] if recipe.is_file() else {}
    tokenizer = table.get("tokenizer")
    count = tokenizer.get("min_count") if isinstance(tokenizer, dict) else None
    return count if isinstance(count, int) else None
