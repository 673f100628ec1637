"""The catalogue's data sets that a recipe reads, and which of them are missing."""

from collections.abc import Iterator, Mapping
from typing import Any

from regard.data import catalogue
from regard.verbs.shared.run_recipe import texts_in


def data_of(table: Mapping[str, Any]) -> list[str]:
    """The files NAME:FILE of the catalogue that a recipe's `[data]` names."""
    return [text for text in texts_in(table.get("data", {})) if catalogue.is_spec(text)]


def refuse_missing_data(table: Mapping[str, Any]) -> None:
    """Check that the catalogue's files that a recipe reads are here; their content is not checked.

    Raises:
        DataError: a file is missing; the hint is the command to download it.
    """
    for spec in data_of(table):
        if not catalogue.is_available(spec):
            catalogue.find_file(spec)


def same_files(table: Mapping[str, Any]) -> Iterator[str]:
    """A warning for each corpus of a recipe whose sources and targets are one file."""
    data = table.get("data", {})
    parts = data.items() if isinstance(data, Mapping) else ()
    corpora = [(part, each) for part, one in parts for each in (one if isinstance(one, list) else [one])]
    for part, corpus in corpora:
        source = corpus.get("source") if isinstance(corpus, Mapping) else None
        if source is not None and source == corpus.get("target"):
            yield f"data.{part}: source and target are the same file, {source}: the targets are copies"


def missing_data_sets(table: Mapping[str, Any]) -> list[str]:
    """The data sets of which a file is missing."""
    missing = [spec.partition(":")[0] for spec in data_of(table) if not catalogue.is_available(spec)]
    return list(dict.fromkeys(missing))
