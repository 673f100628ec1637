"""Compressed files of several members: what these decode to, and where such a file can be cut.

`cat`, bgzip, mgzip, pzstd and pbzip2 write files of many members (of zstd: frames; of bzip2 and xz: streams).
Each can be decoded by itself.
"""

import bz2
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from regard.errors import MissingExtra

FED = 8 << 10  # bytes that are decoded at once: what they decode to is in memory
FED_LATER = 256  # after the border, where only the end of a line is read, and damage is another part's
SEARCHED = 1 << 20  # bytes of one read while the next member is searched
LONGEST = 64 << 20  # bytes after which the search is given up: the rest of the file is one part
PROBED = 1 << 20  # decoded bytes after which bytes that look like a member are one


class DamagedMember(Exception):
    """A member that cannot be decoded; `place`: the byte of the file at which it begins."""

    def __init__(self, place: int) -> None:
        super().__init__(place)
        self.place = place


@dataclass(frozen=True, kw_only=True)
class Compression:
    """How a member begins, and what decodes one: an object as `bz2.BZ2Decompressor` is.

    `padded`: zeros may follow a member. `errors`: what the decoder raises.
    """

    magic: bytes
    decoder: Callable[[], Any]
    errors: tuple[type[Exception], ...]
    padded: bool = False


def _zstandard() -> Any:
    try:
        import zstandard  # pyright: ignore[reportMissingImports]  # an extra
    except ImportError:
        raise MissingExtra("zstandard", "jobs", "reading .zst files") from None
    return zstandard


class _ZstandardFrame:
    """The decoder of a frame."""

    def __init__(self) -> None:
        package = _zstandard()
        self._frame, self._error = package.ZstdDecompressor().decompressobj(), package.ZstdError

    def decompress(self, data: bytes) -> bytes:
        try:
            return self._frame.decompress(data)
        except self._error as error:
            raise ValueError(str(error)) from error

    @property
    def eof(self) -> bool:
        return self._frame.eof

    @property
    def unused_data(self) -> bytes:
        return self._frame.unused_data


COMPRESSIONS = {
    ".gz": Compression(
        magic=b"\x1f\x8b\x08",
        decoder=lambda: zlib.decompressobj(wbits=31),
        errors=(zlib.error,),
        padded=True,
    ),
    ".bz2": Compression(magic=b"BZh", decoder=bz2.BZ2Decompressor, errors=(OSError, ValueError)),
    ".xz": Compression(
        magic=b"\xfd7zXZ\0",
        decoder=lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ),
        errors=(lzma.LZMAError,),
        padded=True,
    ),
    ".zst": Compression(magic=b"\x28\xb5\x2f\xfd", decoder=_ZstandardFrame, errors=(ValueError,)),
}


class Members(io.RawIOBase):
    """What the members of a file decode to, from the one at byte `begin` on.

    `border`: how many decoded bytes come before the member that begins at byte `end`; None before they are
    read, and at the end of the file.

    Raises:
        DamagedMember: while it is read.
    """

    def __init__(self, plain: Any, compression: Compression, begin: int = 0, end: int | None = None) -> None:
        self.border: int | None = None
        self._plain, self._compression, self._place, self._end = plain, compression, begin, end
        self._data, self._content = b"", memoryview(b"")
        self._decoder: Any = None
        self._member = begin  # where the member that is read, or was read last, begins
        self._began = self._decoded = 0  # members; bytes
        plain.seek(begin)

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, target: Any) -> int:
        """The next decoded bytes; none at the end of the file."""
        while not self._content:
            if not self._data:
                self._data = self._plain.read(FED)
            if not self._data:
                self._refuse_no_end()
                return 0
            self._decode()
        size = min(len(target), len(self._content))
        target[:size], self._content = self._content[:size], self._content[size:]
        return size

    def _decode(self) -> None:
        """Decode the bytes that were read, to the end of the member at most."""
        if self._decoder is None and self._compression.padded and self._began:
            self._place += len(self._data)
            self._data = self._data.lstrip(b"\0")
            self._place -= len(self._data)
            if not self._data:
                return
        decoder = self._begin_member() if self._decoder is None else self._decoder
        size = FED if self.border is None or self._decoded < self.border else FED_LATER
        fed, later = self._data[:size], self._data[size:]
        try:
            content = decoder.decompress(fed)
        except self._compression.errors as error:
            raise DamagedMember(self._member) from error
        rest: bytes = decoder.unused_data if decoder.eof else b""
        self._place += len(fed) - len(rest)
        self._decoded += len(content)
        self._data, self._content = rest + later, memoryview(content)
        self._decoder = None if decoder.eof else decoder

    def _begin_member(self) -> Any:
        self._member = self._place
        self._began += 1
        if self._place == self._end:
            self.border = self._decoded
        elif self._end is not None and self._place > self._end and self.border is None:
            raise DamagedMember(self._end)
        return self._compression.decoder()

    def _refuse_no_end(self) -> None:
        if self._decoder is not None or (self._end is not None and self._end > self._place):
            raise DamagedMember(self._member)


def find_cuts(plain: Any, size: int, compression: Compression, part_bytes: int) -> Iterator[int]:
    """The bytes at which a file of that size is cut into parts of that size or a little more.

    Each is the beginning of a member. Bytes that look like one are none unless they can be decoded.
    """
    place = part_bytes
    while place < size:
        found = _next_member(plain, place, min(size, place + LONGEST), compression)
        if found is None:
            return
        yield found
        place = found + part_bytes


def _next_member(plain: Any, begin: int, end: int, compression: Compression) -> int | None:
    magic = compression.magic
    for place in range(begin, end, SEARCHED):
        plain.seek(place)
        block = plain.read(SEARCHED + len(magic) - 1)
        found = block.find(magic)
        while found >= 0:
            if _is_member(plain, place + found, compression):
                return place + found
            found = block.find(magic, found + 1)
    return None


def _is_member(plain: Any, place: int, compression: Compression) -> bool:
    members, buffer, size = Members(plain, compression, place), memoryview(bytearray(1 << 16)), 0
    try:
        while size < PROBED and (count := members.readinto(buffer)):
            size += count
    except DamagedMember:
        return False
    return True
