"""A part of a tokenised corpus: arrays in one safetensors file, for any program."""

from collections.abc import Mapping
from typing import ClassVar, TypeVar

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from regard.errors import DataError

MOST_TOKENS = 100_000_000  # of a side of a part, all of which is in memory
Part = TypeVar("Part", bound="CorpusPart")


class CorpusPart:
    """A part that was read; each kind of corpus has a subclass.

    Attributes:
        of_what: the examples of the corpus, for messages.
    """

    of_what: ClassVar[str]

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Raises KeyError if an array is missing."""
        self.lines = arrays["lines"].astype(np.int64)

    @classmethod
    def of(cls: type[Part], content: bytes, name: str) -> Part:
        """The part that these bytes of a file hold; `name` is the file's for messages.

        Raises:
            DataError: it is not a part of such a corpus.
        """
        try:
            return cls(load(content))
        except (SafetensorError, KeyError) as error:
            raise DataError(
                f"{name} is not a part of a tokenised corpus of {cls.of_what} ({error})",
                "`regard jobs verify` lists damaged parts",
            ) from error


def part_bytes(arrays: Mapping[str, np.ndarray]) -> bytes:
    """The file of these arrays."""
    return save(dict(arrays))


def refuse_large_part(tokens: int) -> None:
    """Raise a DataError if a part has too many tokens: training holds several parts in memory."""
    if tokens > MOST_TOKENS:
        raise DataError(
            f"a part of the input has more than {MOST_TOKENS:,} tokens, which is too much for one part",
            "a compressed file that is one member is one part: cut it, as docs/distributed.md says; or give"
            " smaller --part-megabytes",
        )
