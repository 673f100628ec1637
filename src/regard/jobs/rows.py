"""The rows of a part, each of which has a text, and the output that is made of their results."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from regard.data.files import line_text
from regard.jobs.inputs import InputFile, read_piece
from regard.jobs.part_record import FailedLine

CHUNK, CHUNK_BYTES = 1024, 4 << 20  # rows that are answered together, and their length
Result = Any  # what a row's text became, or a FailedLine


@runtime_checkable
class PartRows(Protocol):
    """The rows of a part, read in chunks; a chunk is written with a result for each of its rows."""

    def chunks(self) -> Iterator[tuple[Sequence[Any], Any]]:
        """The rows, and the chunk that `written` takes."""
        ...

    def text(self, row: Any) -> str:
        """The text of a row.

        Raises:
            DataError: it has none.
        """
        ...

    def head(self) -> bytes:
        """What comes before the rows."""
        ...

    def written(self, chunk: Any, results: Sequence[Result]) -> bytes:
        """The output of a chunk, or of a chunk before it."""
        ...

    def tail(self) -> bytes:
        """What comes after the rows."""
        ...

    def counts(self) -> Mapping[str, int]:
        """What the record has of the output, besides its lines."""
        ...


class LineRows:
    """Lines, each with a line of output.

    Args:
        failure: the output of a line that cannot be answered, from its number in the part and the reason.
    """

    def __init__(
        self, file: InputFile, begin: int, end: int, failure: Callable[[int, str], str] | None = None
    ) -> None:
        self.file, self.begin, self.end, self._failure = file, begin, end, failure

    def chunks(self) -> Iterator[tuple[Sequence[bytes], Sequence[bytes]]]:
        """The lines, some number of them together, or fewer that are long."""
        return ((chunk, chunk) for chunk in chunks_of(read_piece(self.file, self.begin, self.end)))

    def text(self, row: bytes) -> str:
        """The line without its end."""
        return line_text(row, self.file.url, None)

    def head(self) -> bytes:
        """Nothing."""
        return b""

    def written(self, chunk: Sequence[bytes], results: Sequence[Result]) -> bytes:
        """The lines of output."""
        return "".join(map(self._line, results)).encode("utf-8")

    def _line(self, result: Result) -> str:
        if isinstance(result, FailedLine):
            assert self._failure is not None
            return self._failure(result.line, result.reason)
        return result

    def tail(self) -> bytes:
        """Nothing."""
        return b""

    def counts(self) -> Mapping[str, int]:
        """Nothing."""
        return {}


def chunks_of(raws: Iterable[bytes]) -> Iterator[list[bytes]]:
    """The lines that are answered together."""
    chunk, size = [], 0
    for raw in raws:
        chunk.append(raw)
        size += len(raw)
        if len(chunk) == CHUNK or size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
