"""What a tokenizer.json of ours may hold; anything else is refused before the library sees it.

A regular expression in such a file can keep the library busy for as long as its author likes, so only
our own are let in.
"""

from collections.abc import Iterator, Mapping
from typing import Any

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")  # ids 0 to 3
UNK = SPECIALS[1]

# A word with its inner apostrophes and hyphens, or a run of punctuation; each with the space before it.
PIECES = r" ?[\p{L}\p{M}\p{N}]+(?:['’\-][\p{L}\p{M}\p{N}]+)*| ?[^\s\p{L}\p{M}\p{N}]+|\s"
SPELLED_MARK = r"<(?=(?:pad|unk|s|/s)>)"
UNKNOWN_WORD = rf"\A{UNK}\z"
CONTINUING = r"\A##"
REGEXES = {PIECES, SPELLED_MARK, UNKNOWN_WORD, CONTINUING}

PARTS = {
    "normalizer": {"Sequence", "NFC", "NFKC", "Lowercase", "Prepend"},
    "pre_tokenizer": {"Sequence", "Split", "ByteLevel"},
    "model": {"BPE", "WordLevel", "WordPiece", "Unigram"},
    "decoder": {"Sequence", "Fuse", "Strip", "Replace", "ByteLevel"},
}


def inspect(content: Mapping[str, Any]) -> None:
    """Raise ValueError (or LookupError, or TypeError) unless a tokenizer.json is made as ours are."""
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


def _walk(part: object) -> Iterator[Mapping[str, object]]:
    """A part of a tokenizer.json and the parts in it."""
    if isinstance(part, list):
        for inner in part:
            yield from _walk(inner)
    elif isinstance(part, dict):
        yield part
        for name in ("normalizers", "pretokenizers", "decoders"):
            yield from _walk(part.get(name))
