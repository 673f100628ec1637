"""The output of a part and the record beside it, whose presence says that the part is done."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.errors import DataError
from regard.jobs.storage import Storage

FOLDER = "parts"


@dataclass(frozen=True, kw_only=True)
class FailedLine:
    """A line that could not be answered; its number in the part, from 1, and why."""

    line: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class PartRecord:
    """What is known of the output of a part; `seconds`: the time that it took."""

    part: int
    lines: int
    size: int  # bytes
    sha256: str
    seconds: float
    failed: Sequence[FailedLine]
    engine: Mapping[str, Any]

    def is_of(self, content: bytes) -> bool:
        """True if this is the output that the record was written for."""
        return (len(content), hashlib.sha256(content).hexdigest()) == (self.size, self.sha256)


def output_name(part: int) -> str:
    """The file of a part's output."""
    return f"{FOLDER}/{part:08d}.txt"


def record_name(part: int) -> str:
    """The file of a part's record."""
    return f"{FOLDER}/{part:08d}.json"


def write_part(
    storage: Storage,
    part: int,
    outputs: Sequence[str],
    *,
    failed: Sequence[FailedLine],
    seconds: float,
    engine: Mapping[str, Any],
) -> PartRecord:
    """Write the output of each line of a part, then its record."""
    content = "".join(outputs).encode("utf-8")
    record = PartRecord(
        part=part,
        lines=len(outputs),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        seconds=round(seconds, 3),
        failed=failed,
        engine=engine,
    )
    storage.write(output_name(part), content)
    storage.write(record_name(part), (json.dumps(asdict(record), ensure_ascii=False) + "\n").encode())
    return record


def recorded(storage: Storage) -> set[int]:
    """The numbers of the parts that are done."""
    names = (name.removesuffix(".json") for name in storage.names(FOLDER) if name.endswith(".json"))
    return {int(name) for name in names if name.isdecimal()}


def read_record(storage: Storage, part: int) -> PartRecord:
    """The record of a part that is done.

    Raises:
        DataError: it is gone or damaged.
    """
    content = storage.read(record_name(part))
    try:
        table = json.loads(content or b"")
        failed = [FailedLine(**each) for each in table.pop("failed")]
        return PartRecord(**table, failed=failed)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            f"{storage.url}/{record_name(part)} is damaged", "remove it, and run the shard's command again"
        ) from error
