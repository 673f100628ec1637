"""The pieces of a vocabulary as readable text.

Byte-level tokenisers map each byte to a printable character (Radford et al. 2019: a space is "Ġ"), and
SentencePiece writes a space as "▁".
"""

from collections.abc import Sequence
from functools import lru_cache

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_sentencepiece import METASPACE

# bytes that map to themselves
PRINTABLE_BYTES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
OTHER_BYTES = [byte for byte in range(256) if byte not in PRINTABLE_BYTES]
BYTE_OF_CHARACTER = {chr(byte): byte for byte in PRINTABLE_BYTES} | {
    chr(256 + offset): byte for offset, byte in enumerate(OTHER_BYTES)
}


def pieces(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """The text of each id; bytes that are only a part of a character appear by number, such as <0xC3>."""
    found = tokenizer.tokens(ids)
    if _is_byte_level(tokenizer):
        return [_text_of(piece) for piece in found]
    return found if tokenizer.trained_by_regard else [piece.replace(METASPACE, " ") for piece in found]


@lru_cache(maxsize=8)
def _is_byte_level(tokenizer: Tokenizer) -> bool:
    return BYTE_OF_CHARACTER.keys() <= tokenizer.vocabulary().keys()


def _text_of(piece: str) -> str:
    if not all(character in BYTE_OF_CHARACTER for character in piece):
        return piece  # a special or added token
    raw = bytes(BYTE_OF_CHARACTER[character] for character in piece)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in raw)
