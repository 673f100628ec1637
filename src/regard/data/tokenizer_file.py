"""Validates a tokenizer.json before the tokenizers library reads it.

A regular expression in such a file can take unlimited time, so only those of regard and of known model
families are allowed.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from regard.data.tokenizer_limits import refuse_large_tokenizer, refuse_missing_unknown
from regard.data.tokenizer_pretrained import SpecialTokens

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")  # ids 0 to 3
UNK = SPECIALS[1]

# A word with its inner apostrophes and hyphens, or a run of punctuation; each with the space before it.
PIECE_PATTERN = r" ?[\p{L}\p{M}\p{N}]+(?:['’\-][\p{L}\p{M}\p{N}]+)*| ?[^\s\p{L}\p{M}\p{N}]+|\s"
# The same with every digit as a piece of its own, because models copy such numbers best
PIECES_AND_DIGITS = r" ?\p{N}| ?[\p{L}\p{M}]+(?:['’\-][\p{L}\p{M}]+)*| ?[^\s\p{L}\p{M}\p{N}]+|\s"
SPELLED_SPECIAL = r"<(?=(?:pad|unk|s|/s)>)"
UNKNOWN_WORD = rf"\A{UNK}\z"
CONTINUING = r"\A##"
REGEXES = {PIECE_PATTERN, PIECES_AND_DIGITS, SPELLED_SPECIAL, UNKNOWN_WORD, CONTINUING}

ALLOWED_PARTS = {
    "normalizer": {"Sequence", "NFC", "NFKC", "Lowercase", "Prepend"},
    "pre_tokenizer": {"Sequence", "Split", "ByteLevel"},
    "model": {"BPE", "WordLevel", "WordPiece", "Unigram"},
    "decoder": {"Sequence", "Fuse", "Strip", "Replace", "ByteLevel"},
}
# sentencepiece: spaces that it strips or merges, the end of a text, the spelling of a byte, which no piece
# may match as a whole
SPACES_AROUND, SPACES, TEXT_END = r"\A +|[ ▁]+\z", " {2,}", r"\z"
BYTE_SPELLED = r"(?<=<)0(?=x[0-9A-F]{2}>)"
# GPT-2 (Radford et al. 2019), Llama 3, Qwen, sentencepiece
PRETRAINED_REGEXES = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    SPACES_AROUND,
    SPACES,
    TEXT_END,
    BYTE_SPELLED,
}
PRETRAINED_PARTS = {
    "normalizer": {"BertNormalizer", "Precompiled", "Strip", "StripAccents", "Replace", "NFD", "NFKD"},
    "pre_tokenizer": {
        "BertPreTokenizer",
        "Metaspace",
        "Whitespace",
        "WhitespaceSplit",
        "Digits",
        "Punctuation",
    },
    "model": set[str](),
    "decoder": {"WordPiece", "Metaspace", "ByteFallback", "BPEDecoder"},
}


def validate(content: Mapping[str, Any]) -> None:
    """Raises ValueError (or LookupError, or TypeError) unless a tokenizer.json is supported and harmless.

    A file converted from a pretrained model has its special tokens in `post_processor`, and may have more
    kinds of parts.
    """
    refuse_large_tokenizer(content)
    refuse_missing_unknown(content["model"])
    if SpecialTokens.of(content.get("post_processor")) is not None:
        validate_pretrained(content)
        return
    for name, known in ALLOWED_PARTS.items():
        for part in _nested(content[name]):
            kind, pattern = part.get("type"), part.get("pattern")
            if kind is not None and kind not in known:
                raise ValueError(f"{name} {kind!r} is unknown")
            if isinstance(pattern, dict) and pattern.get("Regex", PIECE_PATTERN) not in REGEXES:
                raise ValueError("it has an unknown regular expression")
    for name in ("truncation", "padding", "post_processor"):
        if content.get(name) is not None:
            raise ValueError(f"{name} is not supported")
    special_tokens = [token["content"] for token in content["added_tokens"] if token["special"]]
    if sorted(special_tokens) != sorted(SPECIALS) or len(content["added_tokens"]) != len(special_tokens):
        raise ValueError(f"its special tokens are not {' '.join(SPECIALS)}")


def validate_pretrained(content: Mapping[str, Any]) -> None:
    """Raises ValueError (or LookupError, or TypeError) unless all parts are known and harmless."""
    for name, known in ALLOWED_PARTS.items():
        for part in _nested(content[name]):
            kind, pattern = part.get("type"), part.get("pattern")
            if kind not in known | PRETRAINED_PARTS[name]:
                raise ValueError(f"{name} {kind!r} is unknown")
            regex = pattern.get("Regex", " {2,}") if isinstance(pattern, dict) else " {2,}"
            if regex not in REGEXES | PRETRAINED_REGEXES:
                raise ValueError("it has an unknown regular expression")
    for name in ("truncation", "padding"):
        if content.get(name) is not None:
            raise ValueError(f"{name} is not supported")
    if not isinstance(content["added_tokens"], list):
        raise ValueError("its added_tokens are not a list")


def _nested(part: object) -> Iterator[Mapping[str, object]]:
    """A part of a tokenizer.json and all parts nested in it."""
    if isinstance(part, list):
        for inner in part:
            yield from _nested(inner)
    elif isinstance(part, dict):
        yield part
        for name in ("normalizers", "pretokenizers", "decoders"):
            yield from _nested(part.get(name))
