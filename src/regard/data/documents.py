"""Running text: reads documents (whole files, paragraphs, lines, or fields of JSON Lines) from files."""

import gzip
import hashlib
import itertools
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from regard.data.encodings import refuse_wide
from regard.data.files import line_text, locate, read_lines
from regard.data.json_lines import parse_record, text_field
from regard.errors import DataError, RecipeError
from regard.recipe import check_types


@dataclass(frozen=True, kw_only=True)
class DocumentSettings:
    """The files of running text, and what counts as a document.

    A path is relative to the recipe; `NAME:FILE` is a file of the catalogue; several files are read in order.
    A document is a "file", a "paragraph" (paragraphs are separated by empty lines), a "line", or a "record":
    the text in the `field` of each line of a JSON Lines file. `share` selects a range of the documents:
    [0, 0.9] is the first nine tenths. A single document is cut by characters instead. Only the text between
    the lines that begin with `after` and `before` is read, for example without the licence of a book.
    """

    file: str | tuple[str, ...]  # one file, or several that are read in order
    document: Literal["file", "paragraph", "line", "record"] = "file"  # what counts as a document
    field: str = "text"
    share: tuple[float, ...] = (0.0, 1.0)
    after: str = ""
    before: str = ""

    def __post_init__(self) -> None:
        check_types(self)
        if not self.files:
            raise RecipeError("file is an empty list", "give one file or more")
        if len(self.share) != 2 or not 0 <= self.share[0] < self.share[1] <= 1:
            raise RecipeError(
                f"share = {list(self.share)} is not a range", "give its start and end: [0.0, 0.9]"
            )
        if self.document == "record" and (self.after or self.before):
            raise RecipeError("records have no preamble", "leave out after and before")

    def refuse_unused(self) -> None:
        """Raise a RecipeError for a setting that has no effect beside the others."""
        if self.document != "record" and self.field != "text":
            raise RecipeError(
                f"field = {self.field!r} has no effect: documents are {self.document}s, not records",
                "leave field out, or set document = 'record' for JSON Lines",
            )

    @property
    def files(self) -> tuple[str, ...]:
        """`file` as a tuple."""
        return (self.file,) if isinstance(self.file, str) else self.file

    def whole(self) -> "DocumentSettings":
        """These settings for the whole text of the files, without `share`, `after` and `before`."""
        return replace(self, share=(0.0, 1.0), after="", before="")

    def overlaps(self, other: "DocumentSettings") -> bool:
        """True if both settings can select some of the same text; the files are not read."""
        common = set(self.files) & set(other.files)
        return bool(common) and self.share[0] < other.share[1] and other.share[0] < self.share[1]


class Documents:
    """Documents in order; they can be iterated repeatedly.

    "\\r\\n" becomes "\\n" and a byte order mark at the start of a file is dropped; all else is kept. A file
    that is not UTF-8 is an error with the line number. Documents without a visible character are skipped.
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
            yield from filter(
                None, [head[0][_share_index(first, len(head[0])) : _share_index(last, len(head[0]))]]
            )
            return
        count = sum(1 for _ in self._all())
        yield from itertools.islice(self._all(), _share_index(first, count), _share_index(last, count))

    def _all(self) -> Iterator[str]:
        for path in self.paths:
            yield from (text for text in self._in_file(path) if text and not text.isspace())

    def _in_file(self, path: Path) -> Iterable[str]:
        settings = self._settings
        match settings.document:
            case "record":
                return (
                    _record_text(line, settings.field, path, number)
                    for number, line in enumerate(read_lines(path), start=1)
                )
            case "file":
                return [_between(read_text(path), settings, path)]
            case kind:
                cut = settings.after or settings.before
                lines = _between(read_text(path), settings, path).split("\n") if cut else read_lines(path)
                return lines if kind == "line" else _paragraphs(lines)

    def fingerprint(self) -> str:
        """A digest of everything that determines the texts; the files' paths are not part of it."""
        others = ("file", "weight")  # a weight in a mixture changes no text
        choices = {name: value for name, value in asdict(self._settings).items() if name not in others}
        digest = hashlib.sha256(repr(choices).encode())
        for path in self.paths:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        return digest.hexdigest()


def read_text(path: Path) -> str:
    """Reads a whole UTF-8 file, plain or gzipped."""
    try:
        raw = path.read_bytes()
        raw = gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path}: the compressed file is cut short or damaged",
            "download or compress it again; `gzip -t` tests it",
        ) from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "give a readable file") from error
    refuse_wide(raw, str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        for number, line in enumerate(raw.split(b"\n"), start=1):
            line_text(line, str(path), number)  # raises a DataError with the line number
        raise
    return text.replace("\r\n", "\n")


def _share_index(share: float, count: int) -> int:
    return int(share * count)


def _between(text: str, settings: DocumentSettings, path: Path) -> str:
    """The text after the first line that begins with `after`, up to the next that begins with `before`."""
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


def _record_text(line: str, field: str, path: Path, number: int) -> str:
    try:
        text = text_field(parse_record(line), field)
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{path}:{number}: a lone surrogate, which is not a character", "replace it by U+FFFD"
        ) from error
    except ValueError as error:
        raise DataError(
            f"{path}:{number}: {error}", f"each line must be a JSON object with the text in {field!r}"
        ) from error
    return text
