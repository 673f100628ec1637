"""The known data sets that a recipe reads, and whether they are here."""

from collections.abc import Iterator, Mapping
from typing import Any

from regard.data import catalogue


def data_of(table: Mapping[str, Any]) -> list[str]:
    """The files of known data sets, NAME:FILE each, that a recipe's table names in `[data]`."""
    return [text for text in _texts(table.get("data", {})) if catalogue.is_spec(text)]


def refuse_missing_data(table: Mapping[str, Any]) -> None:
    """Nothing, if all that a recipe reads of known data sets is here; what is in the files is not checked.

    Raises:
        DataError: a file is missing; the hint says how to get it.
    """
    for spec in data_of(table):
        if not catalogue.is_available(spec):
            catalogue.find(spec)


def missing_data_sets(table: Mapping[str, Any]) -> list[str]:
    """The names of the known data sets of which a file is not here."""
    missing = [spec.partition(":")[0] for spec in data_of(table) if not catalogue.is_available(spec)]
    return list(dict.fromkeys(missing))


def _texts(value: Any) -> Iterator[str]:
    """Every text in a table of tables and lists."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
