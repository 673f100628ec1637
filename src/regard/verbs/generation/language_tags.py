"""Warns of texts that begin with the tag of a language, where the model does not read it as one."""

from collections.abc import Sequence

from regard import console
from regard.data.tokenizer import Tokenizer
from regard.verbs.generation.prefixes import lost_tag, reads_languages, spelled_language


class LanguageTags:
    """Warns once of a text with the tag of a language that is lost.

    It is not a token of the model's languages, or its first sentence has it, and another has none.
    `has_prefix`: each source has a prefix that was given. `option`: how a user gives one.
    """

    def __init__(self, tokenizer: Tokenizer, *, has_prefix: bool, option: str = "--prefix") -> None:
        self._reads_languages, self._has_prefix, self._option = reads_languages(tokenizer), has_prefix, option
        self._warns = True

    def warn(self, pieces: Sequence[str], name: str) -> None:
        """Warn of a text, `name` in messages, that is read in these pieces."""
        if not self._warns:
            return
        if self._reads_languages and (tag := spelled_language(pieces[0])):
            reason = f"{name} begins with {tag}, which the model reads as text there"
        elif not self._has_prefix and (tag := lost_tag(pieces)):
            reason = f"{name} is split into sentences, and not all have {tag}"
        else:
            return
        console.warn(f"{reason}: give {self._option} '{tag}' in its place, for each sentence")
        self._warns = False
