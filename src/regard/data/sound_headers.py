"""Why a compressed sound file would not be read whole, by the headers of its parts.

libsndfile believes the first header of a file: of a cut file, or one that is written to a pipe, it gives less
sound or more without an error. So all parts are visited first.
"""

import struct

MP3_RATES = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}  # by version
LAYER_3, LAYER_2 = 1, 2  # codes in a frame's header
KBITS = {  # of a frame, by the first version or a later one, and the layer
    (True, LAYER_3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (True, LAYER_2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (False, LAYER_3): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, LAYER_2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
TAGS = (b"TAG", b"APETAGEX", b"LYRICSBEGIN", b"ID3", b"3DI")  # that may follow the frames
PAGE_HEADER, ID3_HEADER, STREAMINFO = 27, 10, 26  # bytes
BEGINS, ENDS = 2, 4  # flags of an Ogg page
UNKNOWN_LENGTH = "its header does not say how long it is"


def after_id3(content: bytes) -> int:
    """Where the sound begins: after an ID3v2 tag, whose size has four times seven bits."""
    if not content.startswith(b"ID3") or len(content) < ID3_HEADER:
        return 0
    footer = ID3_HEADER if content[5] & 0x10 else 0
    size = sum(byte << 7 * place for place, byte in enumerate(reversed(content[6:ID3_HEADER])))
    return ID3_HEADER + size + footer


def mp3_samples(content: bytes) -> tuple[int, str | None]:
    """The samples of all frames of an MP3 file together, and why they are not all of its sound, if so."""
    at, samples, frames = after_id3(content), 0, 0
    announced = _announced_frames(content[at:])
    while at < len(content):
        frame = _mp3_frame(content[at : at + 4])
        if frame is None:
            rest = content[at:]
            if not rest.startswith(TAGS) and rest.strip(b"\0"):
                return samples, f"it is damaged at byte {at:,}"
            break
        size, count = frame
        if at + size > len(content):
            return samples, f"it ends {at + size - len(content):,} bytes too early"
        at, samples, frames = at + size, samples + count, frames + 1
    if frames < announced:
        return samples, f"it has {frames:,} of the {announced:,} frames that its header counts"
    return samples, None


def _announced_frames(content: bytes) -> int:
    """The number of frames in the Xing header of the first one, which is not counted; 0 if there is none."""
    header = max(content.find(name, 0, 64) for name in (b"Xing", b"Info"))
    if header < 0 or len(content) < header + 12:
        return 0
    flags, frames = struct.unpack_from(">2I", content, header + 4)
    return frames if flags & 1 else 0


def _mp3_frame(header: bytes) -> tuple[int, int] | None:
    """The bytes of a frame, and its samples of a channel; None for what is not a header of one."""
    if len(header) < 4:
        return None
    (word,) = struct.unpack(">I", header)
    version, layer = word >> 19 & 3, word >> 17 & 3
    bit_rate, rate, padding = word >> 12 & 15, word >> 10 & 3, word >> 9 & 1
    if word >> 21 != 0x7FF or version not in MP3_RATES or layer not in (LAYER_2, LAYER_3):
        return None
    if bit_rate in (0, 15) or rate == 3:
        return None
    is_first = version == 3
    samples = 1152 if is_first or layer == LAYER_2 else 576
    bits = 1000 * KBITS[is_first, layer][bit_rate]
    return samples // 8 * bits // MP3_RATES[version][rate] + padding, samples


def ogg_problem(content: bytes) -> str | None:
    """Why an Ogg file (RFC 3533) is not one whole recording; None if it is."""
    at, flags, begun = 0, 0, 0
    while at < len(content):
        header = content[at : at + PAGE_HEADER]
        if len(header) < PAGE_HEADER:
            return f"it ends {PAGE_HEADER - len(header):,} bytes too early"
        if not header.startswith(b"OggS"):
            return f"it is damaged at byte {at:,}"
        if header[5] & BEGINS and flags & ENDS:
            return "it has several recordings, one after the other"
        flags, begun = header[5], begun + bool(header[5] & BEGINS)
        lengths = content[at + PAGE_HEADER : at + PAGE_HEADER + header[26]]
        at += PAGE_HEADER + header[26] + sum(lengths)
    if at > len(content):
        return f"it ends {at - len(content):,} bytes too early"
    return None if flags & ENDS else "its end is missing"


def flac_problem(content: bytes) -> str | None:
    """Why a FLAC file cannot be read; None if it can. What is cut or damaged is noticed by libsndfile."""
    info = content[after_id3(content) :][:STREAMINFO]
    if len(info) < STREAMINFO:
        return f"it ends {STREAMINFO - len(info):,} bytes too early"
    return None if info[21] & 15 or any(info[22:26]) else UNKNOWN_LENGTH
