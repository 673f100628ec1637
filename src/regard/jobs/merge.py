"""The outputs of all parts of a job as one file."""

import gzip
import itertools
import json
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

from regard.errors import DataError
from regard.jobs.inputs import PARQUET, compression_of
from regard.jobs.parquet import merge_parquet
from regard.jobs.part_record import PartRecord, read_record, recorded
from regard.jobs.plan import TOKENS, Part, Plan
from regard.jobs.storage import PIECE, Storage, at_once, new_file
from regard.jobs.tables import has_names

NUMBERED: dict[str, Callable[[str, int], str]]


GZIP = ".gz"


def merge(plan: Plan, storage: Storage, target: str) -> int:
    """Write the output of all parts, in order; compressed if `target` ends with .gz. Returns the lines.

    Line numbers, which begin at 1 in each part, become those of the whole. Of several tables the names of
    columns are written once.

    Raises:
        DataError: a part is missing or damaged, the file exists, or its name is that of another kind.
    """
    _refuse_other_kind(plan, target)
    parts = list(plan.parts())
    if missing := sorted({part.number for part in parts} - recorded(storage)):
        verb = "is" if len(missing) == 1 else "are"
        raise DataError(
            f"{len(missing)} of {len(parts)} parts {verb} not done, the first is part {missing[0]}",
            "run a shard's command again, with --shard 1/1 for all that are missing",
        )
    records = at_once(lambda part: read_record(storage, part.number), parts)
    lines = 0
    with new_file(target) as plain:
        if plan.table == "parquet":
            merge_parquet((_whole(record, storage) for record in records), plain)
            return sum(record.lines for record in records)
        # without a time, so that equal outputs are equal files
        is_compressed = target.lower().endswith(GZIP)
        file: Any = gzip.GzipFile("", "wb", fileobj=plain, mtime=0) if is_compressed else plain
        for part, record in zip(parts, records, strict=True):
            file.writelines(_content(plan, storage, part, record, lines))
            lines += record.lines
        if file is not plain:
            file.close()
    return lines


def _refuse_other_kind(plan: Plan, target: str) -> None:
    if plan.format == TOKENS:
        raise DataError(
            "the parts of a tokenised corpus are not merged", "training reads them as they are: data.tokens"
        )
    if compression_of(target) is not None and not target.lower().endswith(GZIP):
        raise DataError(f"{target}: outputs are compressed by gzip only", "give a name that ends with .gz")
    is_parquet = target.lower().endswith(PARQUET)
    if (plan.table == "parquet") != is_parquet:
        raise DataError(
            f"{target}: the outputs are {'lines' if is_parquet else 'Parquet files'}",
            f"give a file whose name {'does not end' if is_parquet else 'ends'} with {PARQUET}",
        )


def _whole(record: PartRecord, storage: Storage) -> IO[bytes]:
    """The output of a part as a file; a large one is on this machine's disk."""
    file = tempfile.SpooledTemporaryFile(PIECE)  # noqa: SIM115 (closed where it is collected)
    file.writelines(record.pieces(storage))
    file.seek(0)
    return file


def _content(plan: Plan, storage: Storage, part: Part, record: PartRecord, before: int) -> Iterator[bytes]:
    """The output of a part, after `before` lines of earlier parts."""
    pieces = record.pieces(storage)
    if plan.columns is not None:
        is_first = part.number == 0 or part.begin > 0
        named = plan.table == "tsv" and has_names(plan.columns)
        return pieces if is_first or not named else itertools.islice(_lines(pieces), 1, None)
    if plan.format == "text" or not before:
        return pieces
    renumbered = NUMBERED[plan.format]
    return (renumbered(line.decode("utf-8"), before).encode("utf-8") for line in _lines(pieces))


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The lines, each with its line feed; other separators belong to them."""
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in whole)
    assert not rest, "an output ends with a line feed"


def _of_json(line: str, before: int) -> str:
    table = json.loads(line)
    return json.dumps({**table, "line": table["line"] + before}, ensure_ascii=False) + "\n"


def _of_ranked(line: str, before: int) -> str:
    number, _, rest = line.partition("\t")
    return f"{int(number) + before}\t{rest}"


NUMBERED = {"json": _of_json, "ranked": _of_ranked}
