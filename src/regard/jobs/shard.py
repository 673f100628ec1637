"""One shard of a job: its parts, one after the other, except those that are done."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from regard.errors import DataError, RegardError, RunError
from regard.jobs.inputs import refuse_changed
from regard.jobs.pace import Pace, PartDone, ShardReport
from regard.jobs.parquet import ParquetRows
from regard.jobs.part_record import FailedLine, PartOutput, PartRecord, recorded
from regard.jobs.plan import Part, Plan
from regard.jobs.rows import LineRows, PartRows
from regard.jobs.storage import Storage
from regard.jobs.tables import JsonRows, TableKind, TsvRows, table_kind

TRIES = 3  # of a part whose input cannot be read, or whose output cannot be written
WAIT = 2.0  # seconds between two tries

# texts and the number of the first (from 1) -> a line, or a table's cell, for each
Answer = Callable[[Sequence[str], int], list[Any]]
Wrap = Callable[[PartRows], PartRows]  # rows -> the same rows, written in another format
ROWS: dict[TableKind, Callable[..., PartRows]] = {"tsv": TsvRows, "jsonl": JsonRows, "parquet": ParquetRows}


def run_shard(
    plan: Plan,
    storage: Storage,
    shard: tuple[int, int],
    answer: Answer,
    *,
    failure: Callable[[int, str], str],
    engine: Mapping[str, Any],
    wrap: Wrap = lambda rows: rows,
    done: Callable[[PartDone], None] = lambda done: None,
) -> ShardReport:
    """Write the output of each part of a shard that has no record yet.

    Args:
        shard: its number, from 1, and the number of all shards.
        answer: gives each line's output, or the value in a table's new column; it raises for all or for none.
        failure: gives the output of a line that cannot be answered, of its number in the part and the reason.
        engine: facts about this process, for the records.
        wrap: gives the rows another output than lines or tables.
        done: is called after each part.

    Raises:
        DataError: an input has changed, or a file cannot be read or written.
    """
    parts = list(plan.parts_of(*shard))
    present = recorded(storage) if parts else set()
    pace = Pace({part.number: part.size for part in parts}, present)
    for part in parts:
        if part.number not in present:
            record = run_part(plan, part, storage, answer, failure=failure, engine=engine, wrap=wrap)
            failed = len(record.failed)
            done(pace.add(part.number, lines=record.lines, failed=failed, seconds=record.seconds))
    return pace.report()


def run_part(
    plan: Plan,
    part: Part,
    storage: Storage,
    answer: Answer,
    *,
    failure: Callable[[int, str], str],
    engine: Mapping[str, Any],
    wrap: Wrap = lambda rows: rows,
) -> PartRecord:
    """Write the output and the record of a part, in TRIES tries if reading or writing fails."""

    def run() -> PartRecord:
        return _run(plan, part, storage, answer, wrap(rows_of(plan, part, failure)), engine)

    for _ in range(TRIES - 1):
        with suppress(RunError):
            return run()
        time.sleep(WAIT)
    return run()


def _run(
    plan: Plan,
    part: Part,
    storage: Storage,
    answer: Answer,
    rows: PartRows,
    engine: Mapping[str, Any],
) -> PartRecord:
    began = time.monotonic()
    refuse_changed(part.file)
    failed: list[FailedLine] = []
    with PartOutput(plan.suffix) as output:
        output.add(rows.head(), 0)
        for texts, chunk in rows.chunks():
            results = list(_answered(texts, output.lines + 1, rows, answer))
            output.add(rows.written(chunk, results), len(results))
            failed += [each for each in results if isinstance(each, FailedLine)]
        output.add(rows.tail(), 0)
        refuse_changed(part.file)  # it may have changed while it was read
        seconds = time.monotonic() - began
        facts = {"seconds": seconds, "engine": engine, "counts": rows.counts()}
        return output.write(storage, part.number, failed=failed, **facts)


def rows_of(plan: Plan, part: Part, failure: Callable[[int, str], str]) -> PartRows:
    """The rows of a part: its lines, or those of a table."""
    kind = table_kind(part.file.url)
    if plan.columns is None or kind is None:
        return LineRows(part.file, part.begin, part.end, failure)
    return ROWS[kind](part.file, part.begin, part.end, plan.columns)


def _answered(texts: Sequence[Any], first: int, rows: PartRows, answer: Answer) -> Iterator[Any]:
    """The result of each row, or a FailedLine; rows that fail together are answered in halves."""
    try:
        lines = [rows.text(each) for each in texts]
        found = answer(lines, first)
        assert len(found) == len(lines), f"{len(found)} answers to {len(lines)} lines"
        yield from found
    except (RegardError, ValueError, RuntimeError, MemoryError) as error:
        if len(texts) == 1:
            yield FailedLine(line=first, reason=_reason(error))
            return
        half = len(texts) // 2
        yield from _answered(texts[:half], first, rows, answer)
        yield from _answered(texts[half:], first + half, rows, answer)


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, DataError) else str(error)
    return " ".join(text.split())[:300] or type(error).__name__
