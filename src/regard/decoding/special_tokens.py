"""The ids of special tokens, as searches and rules need them."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SpecialTokenIds:
    """The ids of the special tokens."""

    pad_id: int
    bos_id: int
    eos_id: int
    ends: tuple[int, ...] = ()  # other tokens that end a text
    first: int | None = None  # the token that every output begins with
