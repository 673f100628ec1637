"""The blocks of an .xz file, at which it is cut; their sizes are at the ends of its streams.

`xz` writes one stream, with its threads (`-T`) of many blocks.

The .xz file format, version 1.2.1, https://tukaani.org/xz/xz-file-format.txt
"""

import bisect
import io
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

XZ = ".xz"
HEADER_MAGIC, FOOTER_MAGIC = b"\xfd7zXZ\0", b"YZ"
HEADER = FOOTER = 12  # bytes
LONGEST_INDEX = 1 << 28  # bytes
MOST_STREAMS = 16


@dataclass(frozen=True, kw_only=True)
class Block:
    """A block: where it begins in the file, its size there without padding, and what it decodes to."""

    place: int
    unpadded: int
    decoded: int

    @property
    def end(self) -> int:
        """Where it ends, with its padding."""
        return self.place + _padded(self.unpadded)


@dataclass(frozen=True, kw_only=True)
class XzStream:
    """A stream: bytes `begin` to `end` of the file, and the blocks in it; `flags`: its kind of check."""

    begin: int
    end: int
    flags: bytes
    blocks: Sequence[Block]

    def framed(self, blocks: Sequence[Block]) -> tuple[bytes, bytes]:
        """What comes before and after some of its blocks so that they are a stream."""
        index = b"\0" + _number(len(blocks))
        index += b"".join(_number(each.unpadded) + _number(each.decoded) for each in blocks)
        index += bytes(-len(index) % 4)
        index += _crc(index)
        size_and_flags = (len(index) // 4 - 1).to_bytes(4, "little") + self.flags
        footer = _crc(size_and_flags) + size_and_flags + FOOTER_MAGIC
        return HEADER_MAGIC + self.flags + _crc(self.flags), index + footer


def read_streams(plain: Any, size: int) -> list[XzStream] | None:
    """The streams of a file of that size, by the indexes at their ends.

    None if the file is cut short or damaged, or if reading the indexes of all streams would take a part too
    long: then each stream is a member.
    """
    streams: list[XzStream] = []
    end = size
    try:
        while end > 0:
            footer = _read(plain, end - FOOTER, FOOTER)
            if footer[-4:] == bytes(4) and end % 4 == 0:
                end -= 4  # padding
                continue
            streams.append(_stream_before(plain, end, footer))
            end = streams[-1].begin
            if len(streams) > MOST_STREAMS:
                return None
    except (ValueError, StopIteration):
        return None
    return streams[::-1]


def block_cuts(streams: Sequence[XzStream], part_bytes: int) -> Iterator[int]:
    """The bytes at which blocks begin, about one a part; of the first block of a stream where that begins."""
    last = 0
    for stream in streams:
        for number, block in enumerate(stream.blocks):
            place = block.place if number else stream.begin
            if place - last >= part_bytes:
                yield place
                last = place


class XzBlocks(io.RawIOBase):
    """The file from byte `begin` on, which is a cut, as a whole .xz file: blocks before it are left out.

    `border`: the decoded bytes before byte `end`. The blocks of a stream before and after it are two streams,
    each with an index of its own, so that the decoder checks them as those of any file.
    """

    def __init__(self, plain: Any, streams: Sequence[XzStream], begin: int, end: int) -> None:
        self.border, self._plain = 0, plain
        self._segments: list[bytes | tuple[int, int]] = []
        self._places: list[tuple[int, int]] = []  # where a stream begins: here, in the file
        self._size = 0
        for stream in streams:
            for blocks in _groups(stream, begin, end):
                self.border += sum(each.decoded for each in blocks if each.place < end)
                self._add(stream, blocks)
        self._next = 0
        self._content = memoryview(b"")

    def _add(self, stream: XzStream, blocks: Sequence[Block]) -> None:
        self._places.append((self._size, stream.begin if blocks == stream.blocks else blocks[0].place))
        before, after = stream.framed(blocks)
        segments: list[bytes | tuple[int, int]] = [before, (blocks[0].place, blocks[-1].end), after]
        self._segments += segments
        self._size += len(before) + len(after) + blocks[-1].end - blocks[0].place

    def place_in_file(self, place: int) -> int:
        """Where the stream that begins at a byte begins in the file."""
        return self._places[max(bisect.bisect_right(self._places, (place, 1 << 62)) - 1, 0)][1]

    def seek(self, place: int, whence: int = 0) -> int:
        """It is read once, from its beginning."""
        assert (place, whence) == (0, 0)
        return 0

    def read(self, size: int = -1) -> bytes:
        """The next bytes; fewer than the size at the end of a piece."""
        while not self._content and self._next < len(self._segments):
            segment = self._segments[self._next]
            if isinstance(segment, bytes):
                self._content = memoryview(segment)
                self._next += 1
                continue
            begin, end = segment
            self._plain.seek(begin)
            content = self._plain.read(min(size, end - begin))
            self._content = memoryview(content)
            begin += len(content)
            if not content or begin == end:
                self._next += 1
            else:
                self._segments[self._next] = begin, end
        found, self._content = self._content[:size], self._content[size:]
        return bytes(found)


def _groups(stream: XzStream, begin: int, end: int) -> Iterator[Sequence[Block]]:
    """The blocks of a stream within a part, and those after it."""
    first = stream.blocks[:1]
    places = [(stream.begin if [block] == first else block.place, block) for block in stream.blocks]
    for group in (
        [block for place, block in places if begin <= place < end],
        [block for place, block in places if place >= end],
    ):
        if group:
            yield group


def _stream_before(plain: Any, end: int, footer: bytes) -> XzStream:
    """The stream that ends there.

    Raises:
        ValueError: there is none.
    """
    if footer[-2:] != FOOTER_MAGIC or footer[:4] != _crc(footer[4:10]):
        raise ValueError("no footer")
    size = (int.from_bytes(footer[4:8], "little") + 1) * 4
    if size > LONGEST_INDEX:
        raise ValueError("no index")
    index = _read(plain, end - FOOTER - size, size)
    if index[:1] != b"\0" or index[-4:] != _crc(index[:-4]):
        raise ValueError("no index")
    numbers = _numbers(index[1:-4])
    count = next(numbers, 0)
    sizes = [(next(numbers), next(numbers)) for _ in range(count)]
    place = end - FOOTER - size - sum(_padded(unpadded) for unpadded, _ in sizes)
    begin, blocks = place - HEADER, list[Block]()
    for unpadded, decoded in sizes:
        blocks.append(Block(place=place, unpadded=unpadded, decoded=decoded))
        place = blocks[-1].end
    header = _read(plain, begin, HEADER)
    if header != HEADER_MAGIC + footer[8:10] + _crc(footer[8:10]):
        raise ValueError("no header")
    return XzStream(begin=begin, end=end, flags=footer[8:10], blocks=blocks)


def _read(plain: Any, place: int, size: int) -> bytes:
    if place < 0:
        raise ValueError("before the beginning")
    plain.seek(place)
    content = plain.read(size)
    if len(content) < size:
        raise ValueError("cut short")
    return content


def _padded(size: int) -> int:
    return size + -size % 4


def _crc(content: bytes) -> bytes:
    return zlib.crc32(content).to_bytes(4, "little")


def _number(value: int) -> bytes:
    """A number as the format has it: 7 bits a byte, the lowest first."""
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _numbers(content: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in content:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            yield value
            value = shift = 0
