"""Sentence pairs from two aligned files, or from two columns of a table."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from regard.data.corpus import Corpus, CorpusSettings, LinePolicy, open_corpus
from regard.data.corpus_formats import Problem, Row
from regard.data.tables import Table, format_of, open_table
from regard.verbs.proposals.columns import roles_of
from regard.verbs.proposals.input_files import path_of


def pairs_of(files: Sequence[str], columns: Sequence[str]) -> Corpus:
    """The pairs of two files, or of two columns of a table (detected if `columns` is empty)."""
    if len(files) == 2:
        return open_corpus(CorpusSettings(source=files[0], target=files[1]), LinePolicy(), Path())
    path = path_of(files[0])
    table = open_table(path, format_of(path) or "tsv")
    indices = table.columns(columns or roles_of(table, "translation", ()).columns)
    first_line = 2 if table.named and table.format != "jsonl" else 1
    policy = LinePolicy(malformed="skip")  # of repeated headers; other rows are refused before
    return Corpus(path.name, lambda: _rows(table, indices), policy, [path], first_line=first_line)


def _rows(table: Table, indices: Sequence[int]) -> Iterator[Row]:
    """The two cells of each record; a missing cell is empty, line feeds become spaces."""
    for record in table.records():
        if table.is_header(record):
            yield Problem("malformed", "the header again")
            continue
        source, target = (
            (record.cells[index] or "").replace("\r", "").replace("\n", " ") for index in indices
        )
        yield source, target
