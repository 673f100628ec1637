"""The output of a part and the record beside it, whose presence says that the part is done."""

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from regard.errors import DataError
from regard.jobs.storage import PIECE, Storage, naming

PARTS = "parts"
AGAIN = "remove its record (.json), and run the shard's command again"


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
    suffix: str = "txt"  # of the name of the output
    counts: Mapping[str, int] = field(default_factory=dict)  # of what is in it, if it is not text

    def pieces(self, storage: Storage) -> Iterator[bytes]:
        """The output in pieces.

        Raises:
            DataError: it is gone, or is not what was recorded; the pieces come first.
        """
        name, digest, size = output_name(self.part, self.suffix), hashlib.sha256(), 0
        try:
            for piece in storage.pieces(name, self.size):
                digest.update(piece)
                size += len(piece)
                yield piece
        except FileNotFoundError:
            raise DataError(f"{storage.url}/{name} is missing, although it is recorded", AGAIN) from None
        if (size, digest.hexdigest()) != (self.size, self.sha256):
            raise DataError(f"{storage.url}/{name} is not what was recorded", AGAIN)


def output_name(part: int, suffix: str = "txt") -> str:
    """The file of a part's output."""
    return f"{PARTS}/{part:08d}.{suffix}"


def record_name(part: int) -> str:
    """The file of a part's record."""
    return f"{PARTS}/{part:08d}.json"


class PartOutput:
    """The output of a part while it is computed; a large one is in a temporary file of this machine."""

    def __init__(self, suffix: str = "txt") -> None:
        self.suffix = suffix
        self.lines = self.size = 0
        self._digest = hashlib.sha256()
        self._file = tempfile.SpooledTemporaryFile(PIECE)  # noqa: SIM115 (closed by __exit__)

    def __enter__(self) -> "PartOutput":
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, content: bytes, lines: int) -> None:
        """What comes next, and the number of lines or rows that it is the output of.

        Raises:
            RunError: the temporary file cannot be written.
        """
        with naming("a temporary file"):
            self._file.write(content)
        self._digest.update(content)
        self.lines, self.size = self.lines + lines, self.size + len(content)

    def write(
        self,
        storage: Storage,
        part: int,
        *,
        failed: Sequence[FailedLine],
        seconds: float,
        engine: Mapping[str, Any],
        counts: Mapping[str, int],
    ) -> PartRecord:
        """Write the output, then its record."""
        record = PartRecord(
            part=part,
            lines=self.lines,
            size=self.size,
            sha256=self._digest.hexdigest(),
            seconds=round(seconds, 3),
            failed=failed,
            engine=engine,
            suffix=self.suffix,
            counts=counts,
        )
        storage.write_file(output_name(part, self.suffix), self._file, self.size)
        storage.write(record_name(part), (json.dumps(asdict(record), ensure_ascii=False) + "\n").encode())
        return record


def recorded(storage: Storage) -> set[int]:
    """The numbers of the parts that are done."""
    names = (name.removesuffix(".json") for name in storage.names(PARTS) if name.endswith(".json"))
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
