"""Files of data: where they are, their digests, and their lines, strictly UTF-8.

A line ends at "\\n" only: U+2028, U+0085, form feed and the like are text. Text must be valid UTF-8. A byte
order mark at the start of a file and a "\\r" at the end of a line are dropped; elsewhere both are text. A
gzipped file is recognised by its first bytes; a truncated one is an error.
"""

import codecs
import gzip
import hashlib
import itertools
import shlex
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path

from regard.data.catalogue import find_file, is_spec, near_specs
from regard.data.encodings import refuse_wide
from regard.errors import DataError, did_you_mean, meant

COMPRESSED = {  # first bytes -> a compression that is not read, and the command that decompresses it
    b"\xfd7zXZ": ("xz", "xz -dc"),
    b"BZh": ("bzip2", "bzip2 -dc"),
    b"\x28\xb5\x2f\xfd": ("Zstandard", "zstd -dc"),
    b"PK\x03\x04": ("ZIP", "unzip -p"),
}
SUFFIXES = (".xz", ".bz2", ".zst", ".zip")  # of files that are compressed by these
DOCUMENTS = (".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub")  # ZIP files of several parts
STDIN = "standard input"
MAX_LINE_BYTES = 1 << 24  # a longer line is not a sentence, and must not fill the memory


def locate(spec: str, base: Path, *, once: bool = False) -> Path:
    """The path of `spec`: a path relative to `base`, or `NAME:FILE` of the catalogue.

    A pipe can be read only once: opening it again blocks or yields nothing. So it is refused unless the
    caller reads it only `once`.
    """
    path = base / Path(spec).expanduser()
    if path.exists():
        if not once and not path.is_dir() and not path.is_file():
            raise DataError(
                f"{path} is a pipe or a device, but data are read more than once",
                "write it to a file first and give that file",
            )
        return path
    if is_spec(spec):
        return find_file(spec)
    raise _missing(path)


def read_lines(path: Path, *, as_written: bool = False) -> Iterator[str]:
    """Streams the lines of a UTF-8 file, plain or gzipped, without their line ends.

    `as_written`: with them, and with a byte order mark.
    """
    with _open(path) as plain:
        file = gzip.GzipFile(fileobj=plain) if plain.peek(2)[:2] == b"\x1f\x8b" else plain
        for number in itertools.count(1):
            try:
                raw = file.readline(MAX_LINE_BYTES + 1)
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise DataError(
                    f"{path}:{number}: the compressed file is cut short or damaged",
                    "download or compress it again; `gzip -t` tests it",
                ) from error
            if not raw or (number == 1 and raw == codecs.BOM_UTF8 and not as_written):
                return
            if len(raw) > MAX_LINE_BYTES:
                raise DataError(
                    f"{path}:{number}: a line of more than {MAX_LINE_BYTES >> 20} MiB",
                    "a corpus has one sentence per line, ended by a line feed",
                )
            yield line_text(raw, str(path), number, as_written=as_written)


def count_lines(path: Path) -> int:
    """The number of lines that `read_lines` yields; 0 if a gzipped file is damaged."""
    with _open(path) as plain:
        file = gzip.GzipFile(fileobj=plain) if plain.peek(2)[:2] == b"\x1f\x8b" else plain
        lines, last = 0, b""
        try:
            while (block := file.read(1 << 20)) and not (block == codecs.BOM_UTF8 and not last):
                lines, last = lines + block.count(b"\n"), block
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return 0
    return lines + bool(last and not last.endswith(b"\n"))


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes, not unpacked."""
    with _open(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def line_text(raw: bytes, place: str, number: int | None, *, as_written: bool = False) -> str:
    """Decodes line `number` of the file or stream `place`, without line end and byte order mark.

    None is a line whose number is not known, which is not the first. `as_written`: with both.
    """
    if number == 1:
        refuse_wide(raw, place)
        raw = raw if as_written else raw.removeprefix(codecs.BOM_UTF8)
    try:
        return (raw if as_written else raw.removesuffix(b"\n").removesuffix(b"\r")).decode("utf-8")
    except UnicodeDecodeError as error:
        where = place if number is None else f"{place}:{number}"
        if number == 1:
            refuse_compressed(raw, place)
        raise DataError(
            f"{where}: not UTF-8 (byte 0x{raw[error.start]:02x} at byte {error.start + 1})",
            "convert the file: iconv -f LATIN1 -t UTF-8",
        ) from error


def refuse_compressed(head: bytes, place: str) -> None:
    """Raises a DataError if `head`, which is not text, begins a file or stream of another compression."""
    if place.lower().endswith(DOCUMENTS) and head.startswith(b"PK"):
        kind = Path(place).suffix[1:].lower()
        raise DataError(
            f"{place}: a {kind} document, which is not read", "save it as text in UTF-8"
        ) from None
    for magic, (kind, command) in COMPRESSED.items():
        if head.startswith(magic):
            if place == STDIN:
                hint = f"unpack it in the pipe: {command} FILE | regard ..."
            else:
                plain = place.removesuffix(Path(place).suffix) if place.endswith(SUFFIXES) else place
                hint = f"gzip is read: {command} {shlex.quote(place)} | gzip > {shlex.quote(plain + '.gz')}"
            raise DataError(f"{place}: compressed by {kind}, which is not read here", hint) from None


def _open(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}", "give a readable file") from error


def _missing(path: Path) -> DataError:
    neighbours = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
    if specs := near_specs(path.name):
        return DataError(f"no such file: {path}", meant(map(repr, specs)))
    return DataError(
        f"no such file: {path}",
        did_you_mean(path.name, neighbours) if 0 < len(neighbours) <= 12 else f"searched in {path.parent}",
    )
