"""Warns of texts that begin with the tag of a language, where the model does not read it as one."""

from collections.abc import Sequence

from regard import console
from regard.data.tokenizer import Tokenizer
from regard.verbs.generation.prefixes import (
    known_tags,
    lost_tag,
    reads_languages,
    spelled_language,
    unknown_tag,
)

MOST_TAGS = 10  # that a warning lists


class LanguageTags:
    """Warns once of a text with the tag of a language that the model does not know, or that is lost.

    It is lost if the model reads it as text, or if the first sentence has it, and another has none.
    `trained`: those of the training lines. `has_prefix`: each source has a prefix that was given. `option`:
    how a user gives one.
    """

    def __init__(
        self, tokenizer: Tokenizer, trained: Sequence[str], *, has_prefix: bool, option: str = "--prefix"
    ) -> None:
        self._reads_languages, self._has_prefix, self._option = reads_languages(tokenizer), has_prefix, option
        self._tags, self._warns = known_tags(tokenizer, trained), True

    def warn_of_prefix(self, prefix: str) -> None:
        """Warn of a prefix of all texts that is an unknown tag."""
        if tag := unknown_tag(prefix, self._tags):
            console.warn(f"prefix: {self._of_unknown(tag)}")

    def warn(self, pieces: Sequence[str], name: str) -> None:
        """Warn of a text, `name` in messages, that is read in these pieces."""
        if not self._warns:
            return
        if tag := unknown_tag(pieces[0], self._tags):
            console.warn(f"{name}: {self._of_unknown(tag)}")
            self._warns = False
            return
        if self._reads_languages and (tag := spelled_language(pieces[0])):
            reason = f"{name} begins with {tag}, which the model reads as text there"
        elif not self._has_prefix and (tag := lost_tag(pieces)):
            reason = f"{name} is split into sentences, and not all have {tag}"
        else:
            return
        console.warn(f"{reason}: give {self._option} '{tag}' in its place, for each sentence")
        self._warns = False

    def _of_unknown(self, tag: str) -> str:
        """What a warning says of a tag that is none of the model's."""
        first, more = self._tags[:MOST_TAGS], len(self._tags) - MOST_TAGS
        rest = f" and {more} more" if more > 0 else ""
        return f"{tag} is no tag of this model, which knows {', '.join(first)}{rest}"
