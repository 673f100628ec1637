"""The input files of a job, and the lines of a piece of one."""

import codecs
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.data.files import MAX_LINE_BYTES
from regard.errors import DataError
from regard.jobs.members import COMPRESSIONS, Compression, DamagedMember, Members
from regard.jobs.storage import naming, open_filesystem, tried
from regard.jobs.xz_blocks import XZ, XzBlocks, read_streams

BUFFER = 2**20  # bytes of one read
PARQUET = ".parquet"
STAMPS = ("ETag", "etag", "md5Hash", "content_md5", "LastModified", "last_modified", "mtime", "created")


def compression_of(name: str) -> Compression | None:
    """How a file of this name is compressed; None if it is not."""
    lower = name.lower()
    return next((each for suffix, each in COMPRESSIONS.items() if lower.endswith(suffix)), None)


@dataclass(frozen=True, kw_only=True)
class InputFile:
    """A file as it was when the job was planned; `stamp`: its ETag, or when it was changed.

    `cuts`: for a file that cannot be cut at any line, the bytes at which it is cut: the beginnings of members
    of a compressed file, or of row groups of a Parquet file.
    """

    url: str
    size: int  # bytes, compressed
    stamp: str
    cuts: Sequence[int] = ()

    @property
    def compression(self) -> Compression | None:
        """How it is compressed, by its name; None if it is not."""
        return compression_of(self.url)

    @property
    def cut_anywhere(self) -> bool:
        """True if a part may begin at any line."""
        return self.compression is None and not self.url.lower().endswith(PARQUET)

    def ranges(self, part_bytes: int) -> Iterator[tuple[int, int]]:
        """The begin and end of each of its parts, in bytes."""
        if self.cut_anywhere:
            borders = [*range(0, self.size, part_bytes), self.size]
        else:
            borders = [0, *self.cuts, self.size]
        return itertools.pairwise(borders) if self.size else iter(())

    def to_dict(self) -> dict[str, Any]:
        """The file's entry in `plan.json`."""
        return asdict(self)

    @classmethod
    def from_dict(cls, table: Mapping[str, Any]) -> "InputFile":
        """The file that `to_dict` described in the plan."""
        return cls(**{**table, "cuts": tuple(table.get("cuts", ()))})


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
    if now != replace(file, cuts=()):
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
    """The lines of a piece of a file, with their line ends; a byte order mark is left out.

    They are those that begin at bytes `begin` to `end`. Of a compressed file, of which these bytes are
    members: those before which a line ends in these members, and the first of the file. Either way each line
    of a file is in exactly one of several pieces that follow each other.

    Raises:
        DataError: a line is too long, or the file is damaged.
    """
    with opened(file) as plain:
        if file.compression is None:
            yield from _plain_piece(plain, file, begin, end)
            return
        streams = read_streams(plain, file.size) if file.url.lower().endswith(XZ) and file.cuts else None
        blocks = None if streams is None else XzBlocks(plain, streams, begin, end)
        if blocks is None:
            members = Members(plain, file.compression, begin, end if end < file.size else None)
        else:
            members = Members(blocks, file.compression)
            members.border = blocks.border if end < file.size else None
        try:
            yield from _members_piece(members, file, is_first=begin == 0)
        except DamagedMember as error:
            place = error.place if blocks is None else blocks.place_in_file(error.place)
            raise DataError(
                f"{file.url}: the compressed file is cut short or damaged, in its member at byte {place:,}",
                "download it again; what is done of the others is kept",
            ) from error


def _plain_piece(stream: Any, file: InputFile, begin: int, end: int) -> Iterator[bytes]:
    place = 0
    if begin:
        stream.seek(begin - 1)
        place = begin - 1 + len(_line(stream, file))  # what began before
    while place < end and (raw := _line(stream, file)):
        yield from _without_mark(raw) if place == 0 else [raw]
        place += len(raw)


def _members_piece(members: Members, file: InputFile, is_first: bool) -> Iterator[bytes]:
    with io.BufferedReader(members, BUFFER) as stream:
        place = 0 if is_first else len(_line(stream, file))
        while (members.border is None or place <= members.border) and (raw := _line(stream, file)):
            yield from _without_mark(raw) if is_first and place == 0 else [raw]
            place += len(raw)


def _without_mark(raw: bytes) -> Iterator[bytes]:
    """The first line of a file, which is none if it is a byte order mark alone."""
    if raw := raw.removeprefix(codecs.BOM_UTF8):
        yield raw


def _line(stream: Any, file: InputFile) -> bytes:
    raw = stream.readline(MAX_LINE_BYTES + 1)
    if len(raw) > MAX_LINE_BYTES:
        raise DataError(
            f"{file.url}: a line of more than {MAX_LINE_BYTES >> 20} MiB", "an input has a text in each line"
        )
    return raw


@contextmanager
def opened(file: InputFile) -> Iterator[Any]:
    """The file as it is stored."""
    files, path = open_filesystem(file.url)
    with naming(file.url), files.open(path, "rb") as raw, io.BufferedReader(raw, BUFFER) as plain:
        yield plain
