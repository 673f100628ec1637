"""Encoding source lines: a prefix before each; of a line that is too long only the beginning."""

import sys
from collections.abc import Sequence

from regard import console
from regard.data.tokenizer import Tokenizer
from regard.verbs.generation.prefixes import Prefix
from regard.verbs.shared.unknown_tokens import UnknownTokenWarnings


class SourceEncoder:
    """Encodes lines for a model that reads `most` tokens and, of each line, `max_characters` characters."""

    def __init__(self, tokenizer: Tokenizer, prefix: Prefix, most: int, max_characters: int) -> None:
        self._tokenizer, self._prefix = tokenizer, prefix
        self.most, self.max_characters = most, max_characters
        self._unknown = UnknownTokenWarnings.of(tokenizer)

    def ids(self, lines: Sequence[str], numbers: Sequence[int]) -> list[list[int]]:
        """The ids of each line or sentence; what is too long is truncated, and what is unknown named."""
        encoded = self._encoded(lines)
        for number, line, ids in zip(numbers, lines, encoded, strict=True):
            if self._is_long(line, ids, self.most):
                console.warn(
                    f"line {number} is too long ({len(line):,} characters): only its beginning is read"
                )
            self._unknown.warn(f"line {number}", ids)
        return [ids[: self.most] for ids in encoded]

    def ids_of(self, line: str) -> list[int]:
        """The ids of one line, truncated without a warning."""
        return self._encoded([line])[0][: self.most]

    def count_unknown(self, line: str) -> int:
        """How many tokens of a line are unknown."""
        return self.ids_of(line).count(self._tokenizer.unk_id)

    def spans_of(self, line: str) -> list[tuple[int, int]]:
        """The characters of each token of `ids_of(line)` in the line without outer white space."""
        return self._prefix.spans(line[: self.max_characters], self._tokenizer)[: self.most]

    def are_long(self, lines: Sequence[str], *, above: int = 0) -> list[bool]:
        """True for each line of which only the beginning would be read, or with more tokens than `above`.

        0: there is no such number.
        """
        most = min(self.most, above or sys.maxsize)
        return [self._is_long(line, ids, most) for line, ids in zip(lines, self._encoded(lines), strict=True)]

    def _is_long(self, line: str, ids: Sequence[int], most: int) -> bool:
        return len(line) > self.max_characters or len(ids) > most

    def _encoded(self, lines: Sequence[str]) -> list[list[int]]:
        """The ids of the first `max_characters` characters of each line."""
        truncated = [line[: self.max_characters] for line in lines]
        return self._prefix.encoded(truncated, self._tokenizer)
