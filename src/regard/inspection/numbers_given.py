"""Checks of numbers that a caller gives: token ids, heads, positions and counts.

Whole numbers may also be NumPy's or PyTorch's. The ConfigError names what is wrong.
"""

from collections.abc import Collection, Iterable
from operator import index
from typing import SupportsIndex, cast

import torch

from regard.errors import ConfigError, UserError


def refuse_other_ids(
    name: str, ids: Collection[int], vocab_size: int, max_length: int | None = None
) -> tuple[int, ...]:
    """`ids` as Python's numbers, which a NumPy array or a tensor has not.

    Raises:
        ConfigError: one is not a token of the vocabulary, or there are more than `max_length`.
    """
    for each in ids:
        if not is_whole(each):
            raise ConfigError(f"{name}: {each!r} is not the id of a token", "ids are whole numbers from 0")
        if not 0 <= each < vocab_size:
            raise ConfigError(
                f"{name}: the model has no token {each}, its vocabulary has {vocab_size}",
                "encode the text by the model's own tokeniser",
            )
    if max_length is not None and len(ids) > max_length:
        raise ConfigError(
            f"{name}: {len(ids)} tokens are to be read, and the model has {max_length} positions",
            f"give {max_length} tokens at most",
        )
    return tuple(map(index, ids))


def refuse_other_indices(
    owner: str,
    what: str,
    given: object,
    count: int | None,
    *,
    needs_one: bool = True,
    error: type[UserError] = ConfigError,
) -> tuple[int, ...]:
    """`given` as a tuple of indices: of heads, positions or tokens (`what`) of `owner`.

    `count` is how many heads, positions or tokens there are; None if this is unknown.

    Raises:
        UserError: an `error`; `given` is not a sequence of whole numbers, one of them is below 0 or not below
            `count`, or `given` is empty although `needs_one`.
    """
    try:
        numbers = None if isinstance(given, str | bytes) else list(cast(Iterable[SupportsIndex], given))
    except TypeError:  # not iterable, or an array without axes
        numbers = None
    if numbers is None or not all(map(is_whole, numbers)):
        raise error(
            f"{owner}: {what} = {given!r} is not a sequence of whole numbers", f"for instance {what}=[0, 2]"
        )
    found = tuple(map(index, numbers))
    if (needs_one and not found) or any(each < 0 or (count is not None and each >= count) for each in found):
        number = "" if count is None else f": it has {count}"
        of_count = "are counted from 0" if count is None else f"are 0 to {count - 1}"
        hint = f"{what} {of_count}" if found else f"{what} {of_count}; leave {what} out for all"
        raise error(f"{owner} has no {what} {[*found]}{number}", hint)
    return found


def refuse_other_tokens(positions: Iterable[int], length: int, error: type[UserError] = ConfigError) -> None:
    """Raise an error if a position of a token to switch off is not in a text of `length` tokens."""
    if beyond := [each for each in positions if not 0 <= each < length]:
        raise error(f"there is no token at position {beyond[0]}", f"positions go from 0 to {length - 1}")


def refuse_other_count(name: str, value: object, hint: str) -> None:
    """Raise a ConfigError if the setting `name` is not a whole number of 1 or more."""
    if not is_whole(value) or index(cast(SupportsIndex, value)) < 1:
        raise ConfigError(f"{name} = {value!r} is not a whole number of 1 or more", hint)


def is_whole(value: object) -> bool:
    """True for an integer of Python, NumPy or PyTorch; False for a truth value."""
    if isinstance(value, bool) or (isinstance(value, torch.Tensor) and value.dtype == torch.bool):
        return False
    try:
        index(cast(SupportsIndex, value))
    except TypeError:
        return False
    return True


def refuse_other_rows(rows: Collection[int], count: int) -> None:
    """Raise a ConfigError if a row of the answer is not among the `count` rows of the output."""
    for row in rows:
        if not is_whole(row) or not 0 <= row < count:
            raise ConfigError(f"answer_rows: the output has no row {row}", f"rows are 0 to {count - 1}")
