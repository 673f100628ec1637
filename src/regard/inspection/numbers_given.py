"""Numbers that a caller gives: ids, heads, positions and counts; wrong ones are refused by name."""

from collections.abc import Collection, Iterable
from operator import index
from typing import SupportsIndex, cast

from regard.errors import ConfigError, UserError


def refuse_other_ids(name: str, ids: Collection[int], vocab_size: int) -> None:
    """Raise a ConfigError if an id is none of the vocabulary's."""
    for each in ids:
        if not is_whole(each):
            raise ConfigError(f"{name}: {each!r} is not the id of a token", "ids are whole numbers from 0")
        if not 0 <= each < vocab_size:
            raise ConfigError(
                f"{name}: the model has no token {each}, its vocabulary has {vocab_size}",
                "encode the text by the model's own tokeniser",
            )


def refuse_other_indices(
    owner: str, what: str, given: object, count: int | None, *, needs_one: bool = True
) -> tuple[int, ...]:
    """`given` as numbers of heads, positions or tokens of `owner`, which are below `count` (None: unknown).

    Raises:
        ConfigError: it is no sequence of whole numbers, one is not there, or it is empty and `needs_one`.
    """
    numbers = list(given) if isinstance(given, Iterable) and not isinstance(given, str | bytes) else None
    if numbers is None or not all(map(is_whole, numbers)):
        raise ConfigError(
            f"{owner}: {what} = {given!r} is no sequence of whole numbers", f"for instance {what}=[0, 2]"
        )
    found = tuple(map(index, numbers))
    if (needs_one and not found) or any(each < 0 or (count is not None and each >= count) for each in found):
        number = "" if count is None else f": it has {count}"
        of_count = "are counted from 0" if count is None else f"are 0 to {count - 1}"
        hint = f"{what} {of_count}" if found else f"{what} {of_count}; leave {what} out for all"
        raise ConfigError(f"{owner} has no {what} {[*found]}{number}", hint)
    return found


def refuse_other_tokens(positions: Iterable[int], length: int, error: type[UserError] = ConfigError) -> None:
    """Raise an error if a token to switch off is at a position beyond a text of this length."""
    if beyond := [each for each in positions if not 0 <= each < length]:
        raise error(f"there is no token at position {beyond[0]}", f"positions go from 0 to {length - 1}")


def refuse_other_count(name: str, value: object, hint: str) -> None:
    """Raise a ConfigError if the setting `name` is no whole number of 1 or more."""
    if not is_whole(value) or index(cast(SupportsIndex, value)) < 1:
        raise ConfigError(f"{name} = {value!r} is no whole number of 1 or more", hint)


def is_whole(value: object) -> bool:
    """True for what can be an index; a truth value cannot."""
    if isinstance(value, bool):
        return False
    try:
        index(cast(SupportsIndex, value))
    except TypeError:
        return False
    return True


def refuse_other_rows(rows: Collection[int], count: int) -> None:
    """Raise a ConfigError if the answer has a row that the model's output lacks."""
    for row in rows:
        if not is_whole(row) or not 0 <= row < count:
            raise ConfigError(f"answer_rows: the output has no row {row}", f"rows are 0 to {count - 1}")
