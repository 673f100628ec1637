"""The pieces of a vocabulary as people read them, whatever alphabet the tokeniser writes them in.

Byte-level tokenisers write each byte as a character of their own (Radford et al. 2019: a space is "Ġ"), and
SentencePiece writes a space as "▁".
"""

from collections.abc import Sequence
from functools import lru_cache

from regard.data.tokenizer import Tokenizer

PLAIN = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]  # bytes that are written as themselves
OTHERS = [byte for byte in range(256) if byte not in PLAIN]
BYTES = {chr(byte): byte for byte in PLAIN} | {chr(256 + place): byte for place, byte in enumerate(OTHERS)}
METASPACE = "▁"


def pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The pieces behind `ids`; bytes that are a part of a character only are shown by number: <0xC3>."""
    found = tokenizer.tokens(ids)
    if _writes_bytes(tokenizer):
        return [_text_of(piece) for piece in found]
    return found if tokenizer.is_ours else [piece.replace(METASPACE, " ") for piece in found]


@lru_cache(maxsize=8)
def _writes_bytes(tokenizer: Tokenizer) -> bool:
    return BYTES.keys() <= tokenizer.vocabulary().keys()


def _text_of(piece: str) -> str:
    if not all(sign in BYTES for sign in piece):
        return piece  # a mark, or a piece that was added by hand
    held = bytes(BYTES[sign] for sign in piece)
    try:
        return held.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in held)
