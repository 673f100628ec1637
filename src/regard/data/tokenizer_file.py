"""What a tokenizer.json may hold; anything else is refused before the library sees it.

A regular expression in such a file can keep the library busy for as long as its author likes, so only
our own are let in, and those of known families.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from regard.data.tokenizer_limits import refuse_large, refuse_unknown
from regard.data.tokenizer_pretrained import SpecialTokens

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")  # ids 0 to 3
UNK = SPECIALS[1]

# A word with its inner apostrophes and hyphens, or a run of punctuation; each with the space before it.
PIECES = r" ?[\p{L}\p{M}\p{N}]+(?:['’\-][\p{L}\p{M}\p{N}]+)*| ?[^\s\p{L}\p{M}\p{N}]+|\s"
# The same with every digit by itself, as numbers are copied best
PIECES_AND_DIGITS = r" ?\p{N}| ?[\p{L}\p{M}]+(?:['’\-][\p{L}\p{M}]+)*| ?[^\s\p{L}\p{M}\p{N}]+|\s"
SPELLED_MARK = r"<(?=(?:pad|unk|s|/s)>)"
UNKNOWN_WORD = rf"\A{UNK}\z"
CONTINUING = r"\A##"
REGEXES = {PIECES, PIECES_AND_DIGITS, SPELLED_MARK, UNKNOWN_WORD, CONTINUING}

PARTS = {
    "normalizer": {"Sequence", "NFC", "NFKC", "Lowercase", "Prepend"},
    "pre_tokenizer": {"Sequence", "Split", "ByteLevel"},
    "model": {"BPE", "WordLevel", "WordPiece", "Unigram"},
    "decoder": {"Sequence", "Fuse", "Strip", "Replace", "ByteLevel"},
}
# sentencepiece: what it folds, and the end of a text; the spelling of a byte, which no piece may match whole
SPACES_AROUND, SPACES, TEXT_END = r"\A +|[ ▁]+\z", " {2,}", r"\z"
BYTE_SPELLED = r"(?<=<)0(?=x[0-9A-F]{2}>)"
# Of other makers: Radford et al. 2019, Llama 3, Qwen, sentencepiece
FOREIGN_REGEXES = {
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
FOREIGN_PARTS = {
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
    "decoder": {"WordPiece", "Metaspace", "ByteFallback"},
}


def inspect(content: Mapping[str, Any]) -> None:
    """Raise ValueError (or LookupError, or TypeError) unless a tokenizer.json is made as ours are.

    One of another maker has its marks in `post_processor`, and more kinds of parts.
    """
    refuse_large(content)
    refuse_unknown(content["model"])
    if SpecialTokens.of(content.get("post_processor")) is not None:
        inspect_pretrained(content)
        return
    for name, known in PARTS.items():
        for part in _walk(content[name]):
            kind, pattern = part.get("type"), part.get("pattern")
            if kind is not None and kind not in known:
                raise ValueError(f"{name} {kind!r} is unknown")
            if isinstance(pattern, dict) and pattern.get("Regex", PIECES) not in REGEXES:
                raise ValueError("it holds a regular expression of its own")
    for name in ("truncation", "padding", "post_processor"):
        if content.get(name) is not None:
            raise ValueError(f"{name} is not ours to do")
    marks = [token["content"] for token in content["added_tokens"] if token["special"]]
    if sorted(marks) != sorted(SPECIALS) or len(content["added_tokens"]) != len(marks):
        raise ValueError(f"its marks are not {' '.join(SPECIALS)}")


def inspect_pretrained(content: Mapping[str, Any]) -> None:
    """Raise ValueError (or LookupError, or TypeError) unless the parts are known and do not cut or pad."""
    for name, known in PARTS.items():
        for part in _walk(content[name]):
            kind, pattern = part.get("type"), part.get("pattern")
            if kind not in known | FOREIGN_PARTS[name]:
                raise ValueError(f"{name} {kind!r} is unknown")
            regex = pattern.get("Regex", " {2,}") if isinstance(pattern, dict) else " {2,}"
            if regex not in REGEXES | FOREIGN_REGEXES:
                raise ValueError("it holds a regular expression that regard does not know")
    for name in ("truncation", "padding"):
        if content.get(name) is not None:
            raise ValueError(f"{name} is not ours to do")
    if not isinstance(content["added_tokens"], list):
        raise ValueError("its added_tokens are no list")


def _walk(part: object) -> Iterator[Mapping[str, object]]:
    """A part of a tokenizer.json and the parts in it."""
    if isinstance(part, list):
        for inner in part:
            yield from _walk(inner)
    elif isinstance(part, dict):
        yield part
        for name in ("normalizers", "pretokenizers", "decoders"):
            yield from _walk(part.get(name))
