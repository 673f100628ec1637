"""Running text: files -> documents, which are whole files, paragraphs, lines or fields of JSON Lines."""

import gzip
import hashlib
import itertools
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from regard.data.corpus import line_text, locate, read_lines
from regard.data.encodings import refuse_wide
from regard.errors import DataError, RecipeError


@dataclass(frozen=True, kw_only=True)
class DocumentSettings:
    """Where running text is, and what in it is a document.

    A path is relative to the recipe; `NAME:FILE` is a file of the catalogue; several are read one after the
    other. A document is a "file", a "paragraph" (paragraphs stand between empty lines), a "line", or a
    "record": the text in the `field` of each line of a JSON Lines file. `share` takes the documents from one
    share of their number to another, [0, 0.9] the first nine tenths; where there is a single one, it takes
    its characters. Of a file only what stands between the lines that begin with `after` and `before` is
    read: without the preamble and the licence of a book, say.
    """

    file: str | tuple[str, ...]
    document: Literal["file", "paragraph", "line", "record"] = "file"
    field: str = "text"
    share: tuple[float, ...] = (0.0, 1.0)
    after: str = ""
    before: str = ""

    def __post_init__(self) -> None:
        if not self.files:
            raise RecipeError("file names no file", "give one, or a list of them")
        if len(self.share) != 2 or not 0 <= self.share[0] < self.share[1] <= 1:
            raise RecipeError(
                f"share = {list(self.share)} is no part of the text", "give from and to: [0.0, 0.9]"
            )
        if self.document == "record" and (self.after or self.before):
            raise RecipeError("records have no preamble", "leave out after and before")

    @property
    def files(self) -> tuple[str, ...]:
        return (self.file,) if isinstance(self.file, str) else self.file

    def whole(self) -> "DocumentSettings":
        """The same of all of the files."""
        return replace(self, share=(0.0, 1.0), after="", before="")

    def overlaps(self, other: "DocumentSettings") -> bool:
        """Whether some text is in both, as far as the settings tell."""
        common = set(self.files) & set(other.files)
        return bool(common) and self.share[0] < other.share[1] and other.share[0] < self.share[1]


class Documents:
    """Texts that can be read again and again, in their order.

    Lines end at "\\n" or "\\r\\n" and give "\\n"; a byte order mark that opens a file is dropped; all else is
    text as it stands, and a file that is not UTF-8 is an error that names the line. What has no visible
    character is no document.
    """

    def __init__(self, settings: DocumentSettings, base: Path) -> None:
        self.paths = [locate(file, base) for file in settings.files]
        self.name = self.paths[0].name if len(self.paths) == 1 else f"{len(self.paths)} files"
        self._settings = settings

    def __iter__(self) -> Iterator[str]:
        first, last = self._settings.share
        if (first, last) == (0.0, 1.0):
            yield from self._all()
            return
        head = list(itertools.islice(self._all(), 2))
        if len(head) == 1:
            yield from filter(None, [head[0][_place(first, len(head[0])) : _place(last, len(head[0]))]])
            return
        count = sum(1 for _ in self._all())
        yield from itertools.islice(self._all(), _place(first, count), _place(last, count))

    def _all(self) -> Iterator[str]:
        for path in self.paths:
            yield from (text for text in self._in_file(path) if text and not text.isspace())

    def _in_file(self, path: Path) -> Iterable[str]:
        settings = self._settings
        match settings.document:
            case "record":
                return (
                    _record(line, settings.field, path, number)
                    for number, line in enumerate(read_lines(path), start=1)
                )
            case "file":
                return [_between(read_text(path), settings, path)]
            case kind:
                cut = settings.after or settings.before
                lines = _between(read_text(path), settings, path).split("\n") if cut else read_lines(path)
                return lines if kind == "line" else _paragraphs(lines)

    def fingerprint(self) -> str:
        """A digest of everything that decides which texts come out, and not of where the files lie."""
        choices = {name: value for name, value in asdict(self._settings).items() if name != "file"}
        digest = hashlib.sha256(repr(choices).encode())
        for path in self.paths:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


def read_text(path: Path) -> str:
    """A whole UTF-8 file, plain or gzipped."""
    try:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path}: the compressed file is cut short or damaged",
            "fetch or make it again; `gzip -t` tells whether it is whole",
        ) from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "give a file that can be read") from error
    refuse_wide(raw, str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        for number, line in enumerate(raw.split(b"\n"), start=1):
            line_text(line, str(path), number)  # says where
        raise
    return text.replace("\r\n", "\n")


def _place(share: float, count: int) -> int:
    return int(share * count)


def _between(text: str, settings: DocumentSettings, path: Path) -> str:
    """What stands after the line that begins with `after` and before the next that begins with `before`."""
    if settings.after:
        found = re.search(rf"^{re.escape(settings.after)}.*\n?", text, re.MULTILINE)
        if not found:
            raise DataError(f"{path}: no line begins with {settings.after!r}", "correct `after`")
        text = text[found.end() :]
    if settings.before:
        found = re.search(rf"^{re.escape(settings.before)}", text, re.MULTILINE)
        if not found:
            raise DataError(f"{path}: no line begins with {settings.before!r}", "correct `before`")
        text = text[: found.start()]
    return text


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    for empty, group in itertools.groupby(lines, lambda line: not line or line.isspace()):
        if not empty:
            yield "\n".join(group)


def _record(line: str, field: str, path: Path, number: int) -> str:
    try:
        record = json.loads(line)
        if not isinstance(record, dict):
            raise ValueError(f"a JSON {type(record).__name__}, not an object")
        if not isinstance(record.get(field), str):
            raise ValueError(f"{field!r} is {'not text' if field in record else 'missing'}")
        record[field].encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{path}:{number}: a lone surrogate, which is no character", "put U+FFFD in its place"
        ) from error
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}:{number}: {str(error).splitlines()[0]}", "each line holds a record with the text"
        ) from error
    return record[field]
