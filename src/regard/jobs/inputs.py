"""The input files of a job, and the lines of a piece of one."""

import bz2
import codecs
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from regard.data.files import MAX_LINE_BYTES
from regard.errors import DataError, MissingExtra
from regard.jobs.storage import naming, open_filesystem, tried

BUFFER = 2**20  # bytes of one read
COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
STAMPS = ("ETag", "etag", "md5Hash", "content_md5", "LastModified", "last_modified", "mtime", "created")
DAMAGED = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file as it was when the job was planned; `stamp`: its ETag, or when it was changed."""

    url: str
    size: int  # bytes, compressed
    stamp: str

    @property
    def is_compressed(self) -> bool:
        """True if it can only be read from its beginning."""
        return self.url.endswith(COMPRESSED)

    def to_dict(self) -> dict[str, Any]:
        """For the plan."""
        return asdict(self)


def find_inputs(patterns: Sequence[str]) -> list[InputFile]:
    """The files of paths, addresses and patterns, each once; those of a pattern in the order of their names.

    Raises:
        DataError: a path or pattern has no file.
    """
    found: dict[str, InputFile] = {}
    for pattern in patterns:
        files, path = open_filesystem(pattern)
        named = tried(pattern, lambda files=files, path=path: _files_of(files, path))
        if not named:
            is_folder = tried(pattern, lambda files=files, path=path: files.isdir(path))
            hint = f"'{pattern}/*' are the files of this folder" if is_folder else "check the path"
            raise DataError(f"--input {pattern}: there is no such file", hint)
        for each in named:
            file = _described(files.unstrip_protocol(each))
            found.setdefault(file.url, file)
    return list(found.values())


def _files_of(files: Any, path: str) -> list[str]:
    files.invalidate_cache()  # of listings, where this process has looked before
    paths = sorted(files.glob(path)) if any(each in path for each in "*?[") else [path]
    return [each for each in paths if files.isfile(each)]


def refuse_changed(file: InputFile) -> None:
    """Raises a DataError if the file is not what it was when the job was planned."""
    try:
        now = _described(file.url)
    except FileNotFoundError:
        raise DataError(f"{file.url} is gone", "a job reads the files that it was planned for") from None
    if now != file:
        raise DataError(
            f"{file.url} has changed since the job was planned",
            "write to another --output, or restore the file",
        )


def _described(url: str) -> InputFile:
    files, path = open_filesystem(url)
    files.invalidate_cache(path)
    info = tried(url, lambda: files.info(path))
    stamp = next((str(info[key]) for key in STAMPS if info.get(key)), "")
    return InputFile(url=url, size=int(info["size"]), stamp=stamp)


def read_piece(file: InputFile, begin: int, end: int) -> Iterator[bytes]:
    """The lines that begin at bytes `begin` to `end`, with their line ends; of a compressed file all lines.

    Each line of a file is in exactly one of several pieces that follow each other.

    Raises:
        DataError: a line is too long, or the file is damaged.
    """
    with _opened(file) as stream:
        place = 0
        if not file.is_compressed and begin:
            stream.seek(begin - 1)
            place = begin - 1 + len(_line(stream, file))  # what began before
        try:
            while (file.is_compressed or place < end) and (raw := _line(stream, file)):
                raw_length = len(raw)
                if place == 0:
                    raw = raw.removeprefix(codecs.BOM_UTF8)
                if raw:
                    yield raw
                place += raw_length
        except DAMAGED as error:
            raise _damaged(file) from error
        except OSError as error:
            if file.url.endswith(".bz2"):  # its only error
                raise _damaged(file) from error
            raise


def _line(stream: Any, file: InputFile) -> bytes:
    raw = stream.readline(MAX_LINE_BYTES + 1)
    if len(raw) > MAX_LINE_BYTES:
        raise DataError(
            f"{file.url}: a line of more than {MAX_LINE_BYTES >> 20} MiB", "an input has a text in each line"
        )
    return raw


def _damaged(file: InputFile) -> DataError:
    return DataError(f"{file.url}: the compressed file is cut short or damaged", "download it again")


@contextmanager
def _opened(file: InputFile) -> Iterator[Any]:
    files, path = open_filesystem(file.url)
    with naming(file.url), files.open(path, "rb") as raw, io.BufferedReader(raw, BUFFER) as plain:
        match file.url.rpartition(".")[2]:
            case "gz":
                yield gzip.GzipFile(fileobj=plain)
            case "bz2":
                yield bz2.BZ2File(plain)
            case "xz":
                yield lzma.LZMAFile(plain)  # noqa: SIM115 (`plain` is closed)
            case "zst":
                yield _zstandard(plain)
            case _:
                yield plain


def _zstandard(plain: Any) -> Any:
    try:
        import zstandard  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise MissingExtra("zstandard", "jobs", "reading .zst files") from None
    return zstandard.open(plain, "rb")
