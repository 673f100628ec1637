"""Validates a tokenizer.json before the tokenizers library reads it.

A regular expression in such a file can take unlimited time, so only those of regard and of known model
families are allowed. The limits of all other parts are in `tokenizer_limits.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.data.tokenizer_limits import INNER, refuse_large_tokenizer, refuse_missing_unknown
from regard.data.tokenizer_pretrained import CLIP_SPACES, CLIP_WORDS, SpecialTokens

SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")  # ids 0 to 3
UNK = SPECIALS[1]

# A word with its inner apostrophes and hyphens, or a run of punctuation; each with the space before it.
PIECE_PATTERN = r" ?[\p{L}\p{M}\p{N}]+(?:['’\-][\p{L}\p{M}\p{N}]+)*| ?[^\s\p{L}\p{M}\p{N}]+|\s"
# The same with every digit as a piece of its own, because models copy such numbers best
PIECES_AND_DIGITS = r" ?\p{N}| ?[\p{L}\p{M}]+(?:['’\-][\p{L}\p{M}]+)*| ?[^\s\p{L}\p{M}\p{N}]+|\s"
SPELLED_SPECIAL = r"<(?=(?:pad|unk|s|/s)>)"  # the first character of a special token that a text spells
WHITE_SPACE = r"\s+"  # what separates the tokens of `wordpunct`
WORD_OR_PUNCTUATION = r"[\p{L}\p{M}\p{N}]+|[^\s\p{L}\p{M}\p{N}]\p{M}*"  # its tokens; an emoji may have a mark
UNKNOWN_WORD = rf"\A{UNK}\z"
CONTINUING = r"\A##"  # what WordPiece puts before a piece within a word
REGEXES = {PIECE_PATTERN, PIECES_AND_DIGITS, SPELLED_SPECIAL, UNKNOWN_WORD, CONTINUING} | {
    WHITE_SPACE,
    WORD_OR_PUNCTUATION,
}

ALLOWED_PARTS = {
    "normalizer": {"Sequence", "NFC", "NFKC", "Lowercase", "Prepend"},
    "pre_tokenizer": {"Sequence", "Split", "ByteLevel"},
    "model": {"BPE", "WordLevel", "WordPiece", "Unigram"},
    "decoder": {"Sequence", "Fuse", "Strip", "Replace", "ByteLevel"},
}
# Of models of sentencepiece:
SPACES_AROUND = r"\A +|[ ▁]+\z"  # which it strips
SPACES = " {2,}"  # which it merges into one
TEXT_END = r"\z"  # where it puts a space if the model has spaces after words
# The 0 of a text such as <0x41>: a text is split there, so that it does not match the piece of that byte.
BYTE_SPELLED = r"(?<=<)0(?=x[0-9A-F]{2}>)"
# Before a piece that no text matches, as normalised texts have no spaces; the decoder removes it. It was a
# space alone, which decoding kept.
UNMATCHED = " \ue000"
# GPT-2 (Radford et al. 2019), Llama 3, Qwen, CLIP and its older files, sentencepiece
PRETRAINED_REGEXES = {
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
    CLIP_SPACES,
    CLIP_WORDS,
    r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
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
    """Refuses a tokenizer.json that is not supported or could take unlimited time or memory.

    A file with a `post_processor` is of a pretrained model, and may have more kinds of parts: its special
    tokens are there (`tokenizer_pretrained.py`), not among its `added_tokens`.

    Raises:
        ValueError: a part is unknown or too large.
        LookupError, TypeError: the content does not have the structure of a tokenizer.json.
    """
    refuse_large_tokenizer(content)
    refuse_missing_unknown(content["model"])
    pretrained = SpecialTokens.of(content.get("post_processor")) is not None
    for name, kinds in ALLOWED_PARTS.items():
        for part in _nested(content[name]):
            if pretrained:
                _refuse_unknown(part, name, kinds | PRETRAINED_PARTS[name], REGEXES | PRETRAINED_REGEXES)
            else:
                _refuse_unknown(part, name, kinds, REGEXES)
    for name in ("truncation", "padding"):
        if content.get(name) is not None:
            raise ValueError(f"{name} is not supported")
    if not isinstance(content["added_tokens"], list):
        raise ValueError("its added_tokens are not a list")
    if pretrained:
        return
    special_tokens = [token["content"] for token in content["added_tokens"] if token["special"]]
    if sorted(special_tokens) != sorted(SPECIALS):
        raise ValueError(f"its special tokens are not {' '.join(SPECIALS)}")
    _refuse_other_added([token for token in content["added_tokens"] if not token["special"]], content)


def tokenizer_kind(content: Mapping[str, Any]) -> str:
    """The `kind` with which regard trained the tokeniser of this tokenizer.json."""
    named = {"Unigram": "unigram", "WordLevel": "words", "WordPiece": "wordpiece"}
    if (model := content["model"]["type"]) in named:
        return "wordpunct" if model == "WordLevel" and content["decoder"] is None else named[model]
    splitter = content["pre_tokenizer"]
    if splitter is None:
        return "characters"
    return "bytes" if splitter["type"] == "ByteLevel" else "bytebpe" if _has_bytes(splitter) else "bpe"


def _refuse_other_added(added: Sequence[Mapping[str, Any]], content: Mapping[str, Any]) -> None:
    """Raises ValueError for added tokens that an extension of the vocabulary does not have."""
    if not added:
        return
    pieces = content["model"]["vocab"]
    ids = pieces if isinstance(pieces, dict) else {piece: number for number, (piece, _) in enumerate(pieces)}
    for token in added:
        text = token["content"]
        if text.split() != [text] or text in SPECIALS or ids.get(text) != token["id"]:
            raise ValueError(f"its added token {text!r} is not a piece of its vocabulary")
        if any(token[name] for name in ("lstrip", "normalized", "single_word")):
            raise ValueError(f"its added token {text!r} is matched in an unknown way")
    if len({token["rstrip"] for token in added}) > 1:
        raise ValueError("its added tokens are matched in different ways")


def _refuse_unknown(part: Mapping[str, Any], name: str, kinds: set[str], regexes: set[str]) -> None:
    """Raises ValueError for a part without a known type, or with a regular expression that is not known.

    The tokenizers library reads a part without a type as the first kind that has its keys.
    """
    kind, pattern = part.get("type"), part.get("pattern")
    if kind not in kinds:
        raise ValueError(f"{name} {kind!r} is unknown")
    if isinstance(pattern, dict) and "Regex" in pattern and pattern["Regex"] not in regexes:
        raise ValueError("it has an unknown regular expression")


def _nested(part: object) -> Iterator[Mapping[str, Any]]:
    """A part of a tokenizer.json and all parts nested in it."""
    if isinstance(part, list):
        for inner in part:
            yield from _nested(inner)
    elif isinstance(part, dict):
        yield part
        for name in INNER:
            yield from _nested(part.get(name))


def _has_bytes(splitter: Mapping[str, Any]) -> bool:
    return any(part["type"] == "ByteLevel" for part in splitter.get("pretokenizers", ()))
