"""How far a job is, from the records of its parts."""

from dataclasses import dataclass

from regard.errors import DataError
from regard.jobs.inputs import InputFile, refuse_changed
from regard.jobs.part_record import read_record, recorded
from regard.jobs.plan import Part, Plan
from regard.jobs.storage import Storage, at_once


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The parts of a job and those that are done; `seconds`: of all processes together."""

    parts: int
    done: int
    missing: tuple[int, ...]
    size: int  # bytes of all inputs, as they are stored
    size_done: int
    lines: int
    failed: tuple[tuple[str, int, str], ...]  # input, line in its part, reason
    seconds: float


def progress_of(plan: Plan, storage: Storage) -> Progress:
    """How far a job is; reads the record of each part that is done."""
    present, parts = recorded(storage), list(plan.parts())
    there = [part for part in parts if part.number in present]
    records = at_once(lambda part: read_record(storage, part.number), there)
    done = list(zip(there, records, strict=True))
    return Progress(
        parts=len(parts),
        done=len(done),
        missing=tuple(part.number for part in parts if part.number not in present),
        size=sum(file.size for file in plan.inputs),
        size_done=sum(part.end - part.begin for part, _ in done),
        lines=sum(record.lines for _, record in done),
        failed=tuple(
            (part.file.url, each.line, each.reason) for part, record in done for each in record.failed
        ),
        seconds=sum(record.seconds for _, record in done),
    )


def problems_of(plan: Plan, storage: Storage) -> list[str]:
    """What is wrong: parts that are missing, incomplete or damaged, and inputs that have changed."""
    present = recorded(storage)

    def of_part(part: Part) -> str:
        if part.number not in present:
            return f"part {part.number} is missing"
        try:
            for _ in read_record(storage, part.number).pieces(storage):
                pass
        except DataError as error:
            return f"part {part.number}: {error.message}"
        return ""

    found = [*at_once(_problem_of_input, plan.inputs), *at_once(of_part, plan.parts())]
    return [each for each in found if each]


def _problem_of_input(file: InputFile) -> str:
    try:
        refuse_changed(file)
    except DataError as error:
        return error.message
    return ""
