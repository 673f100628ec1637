"""One shard of a job: its parts, one after the other, except those that are done."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from regard.data.files import line_text
from regard.errors import DataError, Interrupted, RegardError, RunError
from regard.jobs.inputs import read_piece, refuse_changed
from regard.jobs.pace import Pace, PartDone, ShardReport
from regard.jobs.part_record import FailedLine, PartOutput, PartRecord, recorded
from regard.jobs.plan import Part, Plan
from regard.jobs.storage import Storage

CHUNK, CHUNK_BYTES = 1024, 4 << 20  # lines that are answered together, and their length
TRIES, WAIT = 3, 2.0  # of a part whose input fails; seconds between them
LATER = 2  # a number of line after which there is no byte order mark

Answer = Callable[[Sequence[str], int], list[str]]  # lines, number of the first -> a line of output for each


def run_shard(
    plan: Plan,
    storage: Storage,
    shard: tuple[int, int],
    answer: Answer,
    *,
    failure: Callable[[int, str], str],
    engine: Mapping[str, Any],
    done: Callable[[PartDone], None] = lambda done: None,
) -> ShardReport:
    """Write the output of each part of a shard that has no record yet.

    Args:
        shard: its number, from 1, and the number of all shards.
        answer: the output of each line; it fails for all lines or for none.
        failure: the output of a line that cannot be answered, from its number in the part and the reason.
        engine: facts about this process, for the records.
        done: is called after each part.

    Raises:
        DataError: an input has changed, or a file cannot be read or written.
    """
    parts = list(plan.parts_of(*shard))
    present = recorded(storage) if parts else set()
    pace = Pace(parts, present)
    for part in parts:
        if part.number not in present:
            record = run_part(part, storage, answer, failure=failure, engine=engine)
            failed = len(record.failed)
            done(pace.add(part.number, lines=record.lines, failed=failed, seconds=record.seconds))
    return pace.report()


def run_part(
    part: Part,
    storage: Storage,
    answer: Answer,
    *,
    failure: Callable[[int, str], str],
    engine: Mapping[str, Any],
) -> PartRecord:
    """Write the output and the record of a part, which is begun again if its input fails while it is read."""
    for _ in range(TRIES - 1):
        try:
            return _run(part, storage, answer, failure, engine)
        except RunError:
            time.sleep(WAIT)
    return _run(part, storage, answer, failure, engine)


def _run(
    part: Part,
    storage: Storage,
    answer: Answer,
    failure: Callable[[int, str], str],
    engine: Mapping[str, Any],
) -> PartRecord:
    began = time.monotonic()
    refuse_changed(part.file)
    failed: list[FailedLine] = []
    with PartOutput() as outputs:
        for chunk in _chunks(read_piece(part.file, part.begin, part.end)):
            answered = list(_answered(chunk, outputs.lines + 1, part.file.url, answer))
            outputs.add(
                [each if isinstance(each, str) else failure(each.line, each.reason) for each in answered]
            )
            failed += [each for each in answered if not isinstance(each, str)]
        refuse_changed(part.file)  # while it was read
        seconds = time.monotonic() - began
        return outputs.write(storage, part.number, failed=failed, seconds=seconds, engine=engine)


def _chunks(raws: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines that are answered together: some number of them, or fewer that are long."""
    chunk, size = [], 0
    for raw in raws:
        chunk.append(raw)
        size += len(raw)
        if len(chunk) == CHUNK or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _answered(raws: Sequence[bytes], first: int, url: str, answer: Answer) -> Iterator[str | FailedLine]:
    """The output of each line; the lines that fail are found by halves, the others are answered."""
    try:
        lines = [line_text(raw, url, LATER) for raw in raws]
        found = answer(lines, first)
        if len(found) != len(lines):
            raise AssertionError(f"{len(found)} answers to {len(lines)} lines")
        yield from found
    except Interrupted:
        raise
    except (RegardError, ValueError, RuntimeError, MemoryError) as error:
        if len(raws) == 1:
            yield FailedLine(line=first, reason=_reason(error))
            return
        half = len(raws) // 2
        yield from _answered(raws[:half], first, url, answer)
        yield from _answered(raws[half:], first + half, url, answer)


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, DataError) else str(error)
    return " ".join(text.split())[:300] or type(error).__name__
