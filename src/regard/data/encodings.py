"""Text that is not UTF-8 but UTF-16 or UTF-32, known by how it begins, so that the error can say so."""

import codecs

from regard.errors import DataError

MARKS = {  # byte order marks, the longer ones first
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
HEAD = 64  # bytes that are looked at where there is no mark


def refuse_wide(content: bytes, place: str) -> None:
    """Raise a DataError if a text in UTF-16 or UTF-32 begins with `content`.

    Without a mark it is known by its NULs: of Latin letters every second byte is one.
    """
    found = next((name for mark, name in MARKS.items() if content.startswith(mark)), None)
    head = content[:HEAD]
    if found is None and len(head) >= 4:
        odd, even = head[1::2], head[::2]
        if odd.count(0) > len(odd) // 2 and not even.count(0):
            found = "UTF-16LE"
        elif even.count(0) > len(even) // 2 and not odd.count(0):
            found = "UTF-16BE"
    if found is not None:
        raise DataError(f"{place}: {found}, not UTF-8", f"convert the file: iconv -f {found} -t UTF-8")
