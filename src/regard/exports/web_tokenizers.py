"""What the tokeniser in JavaScript reads: all kinds of regard, and pretrained ones of the same parts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from regard.data.tokenizer import TokenizerPair
from regard.exports.refusal import NotExpressible
from regard.exports.web_characters import PROPERTIES, character_class

Content = Mapping[str, Any]  # of a tokenizer.json
READ = {  # part of a tokenizer.json -> types that web_files/tokenizer_*.js have
    "normalizer": {
        "Sequence",
        "NFC",
        "NFD",
        "NFKC",
        "NFKD",
        "Lowercase",
        "Prepend",
        "Replace",
        "Precompiled",
    },
    "pre_tokenizer": {"Sequence", "Split", "ByteLevel"},
    "model": {"BPE", "WordLevel", "WordPiece", "Unigram"},
    "decoder": {"Sequence", "Fuse", "Strip", "Replace", "ByteLevel", "ByteFallback"},
}
INNER = ("normalizers", "pretokenizers", "decoders")
BEHAVIOURS = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext"}  # of Split
CLASSES = {  # type of a part -> the classes of characters that it needs
    **dict.fromkeys(("NFC", "NFD", "NFKC", "NFKD"), ("normalized",)),
    "Lowercase": ("lowercase",),
    "Precompiled": ("extending", "prepended"),
}
WORDS = r"\p{L}\p{N}"  # what the expression of ByteLevel has, which is not in the file
NEAREST = "a tokeniser that regard trained can be read; the export --to onnx takes any"


def contents_of(tokenizers: TokenizerPair) -> list[Content]:
    """The content of each tokenizer.json."""
    return [json.loads(content) for content in tokenizers.files().values()]


def refuse_unread(contents: Sequence[Content]) -> None:
    """Raise a NotExpressible for a part of a tokenizer.json that the JavaScript does not have."""
    for content in contents:
        for name, kinds in READ.items():
            for part in _parts(content[name]):
                if part["type"] not in kinds:
                    raise NotExpressible("a web page", name, part["type"], NEAREST)
                behaviour = part.get("behavior", "Isolated")
                if part["type"] == "Split" and (behaviour not in BEHAVIOURS or part["invert"]):
                    raise NotExpressible("a web page", "Split", behaviour, NEAREST)
        if common := [token["content"] for token in content["added_tokens"] if not token["special"]]:
            raise NotExpressible("a web page", "added_tokens", common[0], NEAREST)


def classes_needed(contents: Sequence[Content]) -> dict[str, str]:
    """The classes of characters that these tokenisers use (`web_characters.py`)."""
    parts = [part for content in contents for name in READ for part in _parts(content[name])]
    wanted = {name for part in parts for name in CLASSES.get(part["type"], ())}
    for part in parts:
        pattern = part.get("pattern", {}).get("Regex", "")
        pattern += WORDS if part.get("use_regex") else ""
        wanted |= {name for name in PROPERTIES if rf"\p{{{name}}}" in pattern}
    return {name: character_class(name) for name in sorted(wanted)}


def _parts(part: Content | None) -> Iterator[Content]:
    """A part and all parts in it."""
    if part is None:
        return
    yield part
    for name in INNER:
        for inner in part.get(name, ()):
            yield from _parts(inner)
