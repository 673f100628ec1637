"""Pairs of sentences from two aligned files, or from two columns of a table."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.corpus import Corpus, CorpusSettings, LinePolicy, Row, open_corpus
from regard.data.tables import Table, format_of, open_table
from regard.verbs.proposals.columns import roles_of
from regard.verbs.proposals.input_files import found


def pairs_of(files: Sequence[str], columns: Sequence[str]) -> Corpus:
    """The pairs in two files, or in these columns of one (those of source and target, if none are named)."""
    if len(files) == 2:
        return open_corpus(CorpusSettings(source=files[0], target=files[1]), LinePolicy(), Path())
    path = found(files[0])
    table = open_table(path, format_of(path) or "tsv")
    places = table.columns(columns or roles_of(table, "translation", ()).columns)
    first_line = 2 if table.named and table.format != "jsonl" else 1
    return Corpus(path.name, lambda: _rows(table, places), LinePolicy(), [path], first_line=first_line)


def _rows(table: Table, places: Sequence[int]) -> Iterator[Row]:
    """Both cells of each record; one that is missing is empty, and a line feed in a text is a space."""
    for record in table.records():
        source, target = (
            (record.cells[place] or "").replace("\r", "").replace("\n", " ") for place in places
        )
        yield source, target
