"""Warnings of texts with tokens that a model does not know."""

from collections.abc import Sequence
from pathlib import Path

from regard import console
from regard.counted import counted
from regard.data.tokenizer import Tokenizer
from regard.recipe import read_toml
from regard.weights.model_folder import LoadedModel

LARGE_SHARE = 1 / 3  # of unknown tokens: another script, or mostly unknown letters
LARGE_SHARE_OF_WORDS = 2 / 3  # where rare words are unknown: another language, or another subject
UNKNOWN_PARTS = "characters or words that the model does not know"
NAMED = 10  # texts; of later ones their number is printed as it doubles


class UnknownTokenWarnings:
    """Warns of the first text with unknown tokens, and of each with a large share of them.

    A file may have a rare character on every tenth line, and a warning for each would hide those about the
    rest. A text in a script that the model never saw is answered with nonsense, so it is named; if there are
    many, as in a file in another language, the later ones are counted.

    Args:
        rare_words_unknown: rare words are unknown tokens, which the model has seen in training; so only texts
            with a large share get a warning, even at first.
    """

    def __init__(self, unk_id: int, *, rare_words_unknown: bool = False) -> None:
        self._unk_id = unk_id
        self._large_share = LARGE_SHARE_OF_WORDS if rare_words_unknown else LARGE_SHARE
        self._only_large = rare_words_unknown
        self._is_on = True
        self._named, self._next_count = 0, 2 * NAMED

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> "UnknownTokenWarnings":
        """The warnings for texts of this tokeniser."""
        return cls(tokenizer.unk_id, rare_words_unknown=tokenizer.rare_words_unknown)

    @classmethod
    def of_model(cls, loaded: LoadedModel) -> "UnknownTokenWarnings":
        """The warnings for texts of a model; its recipe says which words training knew."""
        tokenizer = loaded.tokenizers.source
        min_count = _min_count(loaded.path / "recipe.toml")
        rare_words_unknown = tokenizer.rare_words_unknown if min_count is None else min_count > 1
        return cls(tokenizer.unk_id, rare_words_unknown=rare_words_unknown)

    def switch_off(self) -> None:
        """For a server, whose log is not for the texts of its clients."""
        self._is_on = False

    def warn(self, name: str, ids: Sequence[int]) -> None:
        """Warns of a text with these ids, if it needs a warning; `name`: of the text."""
        unknown = ids.count(self._unk_id)
        is_large = unknown >= self._large_share * len(ids)
        if not self._is_on or not unknown or (self._only_large and not is_large):
            return
        self._named += 1
        if self._named > NAMED:
            if self._named == self._next_count:
                self._next_count *= 2
                console.warn(f"{self._named:,} texts so far, {name} the last, have {UNKNOWN_PARTS}")
            return
        rest = "" if self._only_large else "; later texts are named if a third of theirs or more are unknown"
        rest = "; later texts are counted" if self._named == NAMED else rest
        self._only_large = True
        console.warn(
            f"{name} has {UNKNOWN_PARTS} ({unknown:,} of {counted(len(ids), 'token')}),"
            f" and the output may be wrong there{rest}"
        )


def _min_count(recipe: Path) -> int | None:
    """`tokenizer.min_count` of a recipe; None if the recipe or the key is missing."""
    table = read_toml(recipe)[0] if recipe.is_file() else {}
    tokenizer = table.get("tokenizer")
    count = tokenizer.get("min_count") if isinstance(tokenizer, dict) else None
    return count if isinstance(count, int) else None
