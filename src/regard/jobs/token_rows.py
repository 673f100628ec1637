"""The rows of a part, of lines or of a table, that are written as a part of a tokenised corpus."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from regard.jobs.part_record import FailedLine
from regard.jobs.rows import PartRows, Result


@runtime_checkable
class CorpusWriter(Protocol):
    """A part of a tokenised corpus that is being written; `skipped` counts what was left out, by reason."""

    skipped: Counter[str]

    def add(self, examples: Any, lines: Sequence[int], /) -> None:
        """Tokenised examples, and the numbers of their lines."""
        ...

    def counts(self) -> dict[str, int]:
        """What is in it."""
        ...

    def to_bytes(self) -> bytes:
        """The file."""
        ...


class TokenRows:
    """Rows whose results are sequences of ids, or why the row was left out.

    Args:
        rows: from which the texts are read.
        writer: of the part, still empty.
    """

    def __init__(self, rows: PartRows, writer: CorpusWriter) -> None:
        self._rows, self._writer, self._read = rows, writer, 0

    def chunks(self) -> Iterator[tuple[Sequence[Any], Any]]:
        """The chunks of the underlying rows."""
        return self._rows.chunks()

    def text(self, row: Any) -> str:
        """The text of a row; of several columns with tabs between."""
        return self._rows.text(row)

    def head(self) -> bytes:
        """Empty: the file has no head."""
        return b""

    def written(self, chunk: Any, results: Sequence[Result]) -> bytes:
        """Empty: results are collected, and `tail` returns the whole file."""
        kept: list[Any] = []
        lines: list[int] = []
        for line, result in enumerate(results, start=self._read + 1):
            if isinstance(result, str | FailedLine):
                self._writer.skipped[result if isinstance(result, str) else "failed"] += 1
            else:
                kept.append(result)
                lines.append(line)
        self._writer.add(kept, lines)
        self._read += len(results)
        return b""

    def tail(self) -> bytes:
        """The whole file."""
        return self._writer.to_bytes()

    def counts(self) -> Mapping[str, int]:
        """What is in the part, and what was left out, by reason."""
        return self._writer.counts()
