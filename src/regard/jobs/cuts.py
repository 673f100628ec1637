"""What the planning of a job decides: where inputs are cut into parts, and whether they can be read."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from regard.errors import DataError
from regard.jobs.inputs import PARQUET, InputFile, opened
from regard.jobs.members import COMPRESSIONS, find_cuts
from regard.jobs.parquet import group_cuts, parquet_shape
from regard.jobs.storage import at_once
from regard.jobs.tables import CSV_ALONE, TableColumns, TableKind, kind_of, refuse_missing_keys, tsv_shape
from regard.jobs.xz_blocks import XZ, block_cuts, read_streams

TABLES = {PARQUET: "", ".csv": "CSV", ".jsonl": "JSON Lines", ".ndjson": "JSON Lines"}
WORDS = {".conllu": "CoNLL-U", **dict.fromkeys((".conll", ".bio", ".iob", ".iob2"), "words in columns")}


def divided(file: InputFile, part_bytes: int) -> InputFile:
    """The file with its cuts, if it is larger than a part and cannot be cut at any line."""
    if file.size <= part_bytes or file.cut_anywhere:
        return file
    with opened(file) as plain:
        if file.compression is None:
            return replace(file, cuts=tuple(group_cuts(plain, part_bytes, file.url)))
        streams = read_streams(plain, file.size) if file.url.lower().endswith(XZ) else None
        if streams is not None:
            return replace(file, cuts=tuple(block_cuts(streams, part_bytes)))
        return replace(file, cuts=tuple(find_cuts(plain, file.size, file.compression, part_bytes)))


def refuse_odd_tables(inputs: Sequence[InputFile], columns: TableColumns) -> None:
    """Raise a DataError if a table lacks a column, or its columns are not those of the first table."""
    kind = kind_of(inputs)
    if kind is None:
        return
    for file in inputs:
        if kind == "parquet" and not file.size:
            raise DataError(f"{file.url} is empty, which no Parquet file is", "write or copy it again")
    shapes = at_once(lambda file: SHAPES[kind](file, columns) if file.size else None, inputs)
    files = [(file, shape) for file, shape in zip(inputs, shapes, strict=True) if shape is not None]
    for file, shape in files[1:]:
        if shape != files[0][1]:
            raise DataError(
                f"{file.url} has other columns than {files[0][0].url}: {_difference(files[0][1], shape)}",
                "give each kind of table a job of its own",
            )


def _json_shape(file: InputFile, columns: TableColumns) -> str:
    refuse_missing_keys(file, columns)
    return ""


SHAPES: dict[TableKind, Callable[[InputFile, TableColumns], str]] = {
    "tsv": tsv_shape,
    "jsonl": _json_shape,
    "parquet": parquet_shape,
}


def _difference(old: str, new: str) -> str:
    """The first difference of two lists of columns."""
    separator = "\n" if "\n" in old else "\t"
    pairs = list(zip(old.split(separator), new.split(separator), strict=False))
    odd = [f"{after!r} in place of {before!r}" for before, after in pairs if before != after]
    return odd[0] if odd else f"{new.count(separator) + 1} in place of {old.count(separator) + 1}"


def refuse_others_than_lines(inputs: Sequence[InputFile]) -> None:
    """Raise a DataError if a file's lines are not texts by its name; one of .tsv may have pairs of texts."""
    for file in inputs:
        name = PurePosixPath(file.url.lower())
        own_suffix = name.with_suffix("").suffix if name.suffix in COMPRESSIONS else name.suffix
        for suffix, kind in TABLES.items():
            if suffix == own_suffix:
                hint = CSV_ALONE if suffix == ".csv" else "name the column of its texts: --column NAME"
                raise DataError(f"{file.url} is a table{kind and f' ({kind})'}", hint)
        for suffix, kind in WORDS.items():
            if suffix == own_suffix:
                raise DataError(
                    f"{file.url} is {kind}, and a job reads lines of text",
                    "`regard tag --input FILE` tags one such file",
                )
