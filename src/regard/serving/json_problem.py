"""Why a body is not JSON: what is wrong, where, and what to send instead."""

import json
import re

BOM = b"\xef\xbb\xbf"  # some clients send it before UTF-8
UTF_16 = ("the body is UTF-16 or UTF-32, not UTF-8", "send UTF-8")
OTHERS = {  # how bodies begin that are not text in UTF-8
    b"\x1f\x8b": ("the body is compressed by gzip", "send it as it is"),
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
}
# An escape in a string: that of a whole character beyond U+FFFF, half of one, or another one
ESCAPE = re.compile(r"\\(?:ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(ud[89a-f][0-9a-f]{2})|.)", re.I | re.S)
CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?(?:NaN|Infinity))')  # or a string, in which it is text


class _Constant(Exception):
    """NaN or an infinity, which Python reads as numbers."""


def json_problem(content: bytes) -> tuple[str, str]:
    """What is wrong with a body that is not JSON, and what to do; repeats no text of the body."""
    if not content.strip():
        return "the body is empty", "send a JSON object"
    for begin, known in OTHERS.items():
        if content.startswith(begin):
            return known
    if b"\0" in content[:2]:
        return UTF_16
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        where = _place(content[: error.start].decode("utf-8"))
        return f"the body is not UTF-8: byte 0x{content[error.start]:02x} in {where}", "send UTF-8"
    try:
        json.loads(text, parse_constant=_refused)
    except _Constant:
        return _constant(text)
    except json.JSONDecodeError as error:
        where = _place(text[: error.pos])
        return f"the body is not JSON: {error.msg.removesuffix(' at')} in {where}", "send a JSON object"
    except RecursionError:
        return "the body is not JSON that can be read: it has too many levels", "send an object with fewer"
    except ValueError:  # a number of thousands of digits
        pass
    return _lone_surrogate(text)


def _refused(name: str) -> None:
    raise _Constant


def _constant(text: str) -> tuple[str, str]:
    """The problem of the first NaN or infinity."""
    found = next(each for each in CONSTANT.finditer(text) if each[1])
    where = _place(text[: found.start()])
    return f"the body is not JSON: {found[1]} in {where}, which JSON has not", f"leave out {found[1]}"


def _lone_surrogate(text: str) -> tuple[str, str]:
    """The problem of the first escape that is half of a character without the other half."""
    for escape in ESCAPE.finditer(text):
        if escape[1]:
            where = _place(text[: escape.start()])
            return (
                f"the body is not JSON: \\{escape[1]} in {where} is half of a character",
                r"send both halves, as \ud83d\ude00, or leave it out",
            )
    return "the body is not JSON", "send a JSON object in UTF-8"


def _place(before: str) -> str:
    """The line and the column of what comes after this text, both from 1."""
    return f"line {before.count(chr(10)) + 1}, column {len(before) - before.rfind(chr(10))}"
