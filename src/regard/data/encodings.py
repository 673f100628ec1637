"""Detects UTF-16 and UTF-32 text by its first bytes, for a precise error message."""

import codecs

from regard.errors import DataError

BYTE_ORDER_MARKS = {  # byte order marks, the longer ones first
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
SAMPLE_BYTES = 64  # bytes that are examined if there is no byte order mark


def refuse_wide(content: bytes, place: str) -> None:
    """Raises a DataError if `content` is the beginning of a text in UTF-16 or UTF-32.

    Without a byte order mark it is detected by its NULs: every second byte of Latin letters is one.
    """
    found = next((name for bom, name in BYTE_ORDER_MARKS.items() if content.startswith(bom)), None)
    head = content[:SAMPLE_BYTES]
    if found is None and len(head) >= 4:
        odd, even = head[1::2], head[::2]
        if odd.count(0) > len(odd) // 2 and not even.count(0):
            found = "UTF-16LE"
        elif even.count(0) > len(even) // 2 and not odd.count(0):
            found = "UTF-16BE"
    if found is not None:
        raise DataError(f"{place}: {found}, not UTF-8", f"convert the file: iconv -f {found} -t UTF-8")
