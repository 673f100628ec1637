"""Parquet files as inputs of a job, by pyarrow: a part is some row groups, its output a Parquet file.

https://parquet.apache.org/docs/file-format
"""

import importlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from regard.data.tables import column_index
from regard.errors import DataError, MissingExtra
from regard.jobs.inputs import InputFile, opened
from regard.jobs.part_record import FailedLine
from regard.jobs.rows import CHUNK, Result
from regard.jobs.tables import TableColumns, taken

GROUP_ROWS, GROUP_BYTES = 1 << 16, 64 << 20  # of a row group that is written, at most, or a chunk more


def group_cuts(plain: Any, part_bytes: int, url: str) -> Iterator[int]:
    """The bytes at which row groups begin, about one a part; none if the groups are not in order."""
    begins = _begins(_parquet(plain, url))
    if begins != sorted(begins):
        return
    last = 0
    for begin in begins[1:]:
        if begin - last >= part_bytes:
            yield begin
            last = begin


def parquet_shape(file: InputFile, columns: TableColumns) -> str:
    """The columns of a file and their types.

    Raises:
        DataError: it lacks a column, one has no texts, or it has the new one.
    """
    with opened(file) as plain:
        schema = _parquet(plain, file.url).schema_arrow
    for each in columns.texts:
        _path(schema, each, file.url)
    if columns.into in schema.names:
        raise taken(file, columns.into)
    return str(schema.remove_metadata())


class ParquetRows:
    """The rows of the row groups that begin within some bytes of a file, and the file that is written."""

    def __init__(self, file: InputFile, begin: int, end: int, columns: TableColumns) -> None:
        self.file, self.begin, self.end, self.columns = file, begin, end, columns
        self._sink, self._batches, self._rows, self._size = _Sink(), list[Any](), 0, 0
        self._writer: Any = None

    def chunks(self) -> Iterator[tuple[Sequence[bytes | None], Any]]:
        """The texts of some rows, and these rows."""
        with opened(self.file) as plain:
            source = _parquet(plain, self.file.url)
            begins = _begins(source)
            groups = [number for number, place in enumerate(begins) if self.begin <= place < self.end]
            paths = [_path(source.schema_arrow, each, self.file.url) for each in self.columns.texts]
            self._begin(source)
            try:
                for batch in source.iter_batches(CHUNK, row_groups=groups) if groups else ():
                    yield _texts(batch, paths), batch
            except (OSError, ValueError) as error:  # pyarrow's are of these kinds
                raise _error_of(self.file.url, error) from error

    def _begin(self, source: Any) -> None:
        pa, _ = _pyarrow()
        kinds = {"text": pa.string(), "json": pa.string(), "number": pa.float64()}
        kind = kinds.get(self.columns.result, pa.list_(pa.float32()))
        self._schema = source.schema_arrow.append(pa.field(self.columns.into, kind))
        self._writer = _writer(self._sink, self._schema, source)

    def text(self, row: bytes | None) -> str:
        """The text of a row."""
        if row is None:
            raise DataError(f"{', '.join(self.columns.texts)} is null", "fill it, or leave the row out")
        try:
            return row.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"not UTF-8 at byte {error.start + 1}", "write the file again") from None

    def head(self) -> bytes:
        """Nothing: it depends on the file, which is opened later."""
        return b""

    def written(self, chunk: Any, results: Sequence[Result]) -> bytes:
        """The row groups that are full."""
        pa, _ = _pyarrow()
        values = [None if isinstance(each, FailedLine) else each for each in results]
        if self.columns.result == "json":
            values = [None if each is None else json.dumps(each, ensure_ascii=False) for each in values]
        column = pa.array(values, self._schema.field(self.columns.into).type)
        self._batches.append(pa.RecordBatch.from_arrays([*chunk.columns, column], schema=self._schema))
        self._rows, self._size = self._rows + len(results), self._size + chunk.nbytes
        if self._rows >= GROUP_ROWS or self._size >= GROUP_BYTES:
            self._write_group()
        return self._sink.taken()

    def tail(self) -> bytes:
        """The last row group, and the metadata of all."""
        if self._batches:
            self._write_group()
        self._writer.close()
        return self._sink.taken()

    def counts(self) -> Mapping[str, int]:
        """Nothing."""
        return {}

    def _write_group(self) -> None:
        pa, _ = _pyarrow()
        table = pa.Table.from_batches(self._batches)
        self._writer.write_table(table, row_group_size=max(len(table), 1))
        self._batches, self._rows, self._size = [], 0, 0


def merge_parquet(parts: Iterable[Any], target: Any) -> None:
    """Write the row groups of open Parquet files into one file, in order."""
    _, pq = _pyarrow()
    writer: Any = None
    for part in parts:
        with part:
            source = pq.ParquetFile(part)
            if writer is None:
                writer = _writer(target, source.schema_arrow, source)
            for number in range(source.num_row_groups):
                group = source.read_row_group(number)
                writer.write_table(group, row_group_size=max(len(group), 1))
    if writer is not None:
        writer.close()


def _writer(target: Any, schema: Any, source: Any) -> Any:
    """A writer that compresses as a file is compressed."""
    pa, pq = _pyarrow()
    codec = source.metadata.row_group(0).column(0).compression if source.num_row_groups else "SNAPPY"
    codec = "NONE" if codec == "UNCOMPRESSED" else codec
    return pq.ParquetWriter(pa.PythonFile(target, "w"), schema, compression=codec)


class _Sink(io.RawIOBase):
    """A file that is only written; what was written is taken out of it."""

    def __init__(self) -> None:
        self._content, self._before = bytearray(), 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._content += data
        return len(data)

    def tell(self) -> int:
        return self._before + len(self._content)

    def taken(self) -> bytes:
        content = bytes(self._content)
        self._before += len(content)
        self._content.clear()
        return content


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow  # pyright: ignore[reportMissingImports]  # an extra
        import pyarrow.parquet  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise MissingExtra("pyarrow", "jobs", "reading .parquet files") from None
    return pyarrow, pyarrow.parquet


def _parquet(plain: Any, url: str) -> Any:
    _, pq = _pyarrow()
    try:
        return pq.ParquetFile(plain)
    except (OSError, ValueError) as error:
        raise _error_of(url, error) from error


def _error_of(url: str, error: OSError | ValueError) -> Exception:
    """An error that says that the file is damaged; an error of the file system is returned as it is."""
    if isinstance(error, OSError) and error.errno is not None:
        return error
    reason = " ".join(str(error).split())[:200]
    return DataError(f"{url}: no Parquet file, or a damaged one: {reason}", "write or download it again")


def _begins(source: Any) -> list[int]:
    """The byte at which each row group begins."""

    def begin(number: int) -> int:
        group = source.metadata.row_group(number)
        chunks = [group.column(place) for place in range(group.num_columns)]
        pages = [
            (each.dictionary_page_offset or each.data_page_offset, each.data_page_offset) for each in chunks
        ]
        return min(min(offsets) for offsets in pages)

    return [begin(number) for number in range(source.num_row_groups)]


def _path(schema: Any, wanted: str, url: str) -> list[int]:
    """The numbers by which a column of texts is found: of the column, and of the fields of structs within."""
    pa, _ = _pyarrow()
    leaves = list(_leaves(schema, pa))
    number = column_index([name for name, *_ in leaves], wanted, url)
    name, path, kind = leaves[number]
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if kind not in (pa.string(), pa.large_string(), pa.string_view()):
        raise DataError(f"{url}: the column {name!r} has values of type {kind}, no texts", "name another")
    return path


def _leaves(fields: Iterable[Any], pa: Any, before: str = "", path: Sequence[int] = ()) -> Iterator[Any]:
    for number, field in enumerate(fields):
        name, places = before + field.name, [*path, number]
        if pa.types.is_struct(field.type):
            inner = [field.type.field(place) for place in range(field.type.num_fields)]
            yield from _leaves(inner, pa, f"{name}.", places)
        else:
            yield name, places, field.type


def _texts(batch: Any, paths: Sequence[Sequence[int]]) -> Sequence[bytes | None]:
    """The texts of a batch as bytes, of which some may be no UTF-8; None where one of several is null."""
    pa, _ = _pyarrow()
    compute: Any = importlib.import_module("pyarrow.compute")
    columns = []
    for number, *inner in paths:
        column = batch.column(number)
        if inner:
            column = compute.struct_field(column, inner)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        columns.append(column.cast(pa.large_binary()).to_pylist())
    return [None if None in cells else b"\t".join(cells) for cells in zip(*columns, strict=True)]
