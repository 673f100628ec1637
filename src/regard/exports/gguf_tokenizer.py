"""A tokeniser as the entries of a GGUF file, for llama.cpp's tokenisers.

llama.cpp has a fixed list of ways to split a text. Two of them ("gemma4", "sarvam-moe") split it at line
breaks alone and join pieces by a list of pairs, as regard's kinds bpe and characters do after a finer
splitting.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import PRETRAINED_REGEXES, tokenizer_kind
from regard.data.tokenizer_sentencepiece import METASPACE
from regard.exports.ctranslate2_folder import pieces
from regard.exports.gguf_settings import ENGINE
from regard.exports.refusal import NotExpressible
from regard.exports.sentencepiece_file import engine_pieces, refuse_added_tokens

NORMAL, UNKNOWN, CONTROL = 1, 2, 3  # kinds of tokens
NEAREST = "a tokeniser of kind 'bpe', 'characters' or 'bytes' can be"
SPLITS = {  # the first characters of a regular expression -> llama.cpp's name
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+": "gpt-2",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}": "llama-bpe",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|": "qwen2",
}


class GGUFTokenizer(NamedTuple):
    """The entries of a tokeniser, and what a text must begin with there: a space, or nothing."""

    split: str  # `tokenizer.ggml.pre`
    tokens: list[str]
    kinds: list[int]
    merges: list[str]
    first: str


def gguf_tokenizer(tokenizer: Tokenizer, *, begins: bool) -> GGUFTokenizer:
    """The entries for a tokeniser of texts that begin with <s> or not.

    Raises:
        NotExpressible: llama.cpp has none that yields the same ids.
    """
    if tokenizer.prefix:
        raise NotExpressible(ENGINE, "prefix", tokenizer.prefix, "a model of one language has none")
    refuse_added_tokens(ENGINE, tokenizer)
    content = json.loads(tokenizer.to_bytes())
    model = content["model"]
    if model["type"] != "BPE" or model.get("byte_fallback"):
        kind = "BPE with byte_fallback" if model["type"] == "BPE" else model["type"]
        kind = tokenizer_kind(content) if tokenizer.trained_by_regard else kind
        raise NotExpressible(ENGINE, "kind", kind, NEAREST)
    names = pieces(tokenizer)
    is_bytes = "ByteLevel" in json.dumps(content["pre_tokenizer"])
    if is_bytes:
        split, first = _split_of_bytes(content, trained=tokenizer.trained_by_regard), ""
    else:
        _refuse_other_normalizers(content["normalizer"])
        split, names = ("gemma4" if begins else "sarvam-moe"), engine_pieces(tokenizer, names)
        first = " " if content["pre_tokenizer"] is not None else ""
    kinds = [NORMAL] * len(names)
    for number in (tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id, *tokenizer.unmatchable_ids):
        kinds[number] = CONTROL
    if tokenizer.trained_by_regard:
        kinds[tokenizer.unk_id] = UNKNOWN
    escape = (lambda piece: piece) if is_bytes else (lambda piece: piece.replace(" ", METASPACE))
    merges = [" ".join(map(escape, pair)) for pair in model["merges"]]
    return GGUFTokenizer(split=split, tokens=names, kinds=kinds, merges=merges, first=first)


def _split_of_bytes(content: Mapping[str, Any], *, trained: bool) -> str:
    """The name of the splitting of a byte-level tokeniser."""
    if trained:
        if content["model"]["merges"]:
            raise NotExpressible(ENGINE, "kind", "bytebpe", NEAREST)
        return "gpt-2"  # each byte is a token, however a text is split
    if content["normalizer"] is not None and content["normalizer"] != {"type": "NFC"}:
        raise NotExpressible(ENGINE, "normalizer", content["normalizer"], "one without it can be exported")
    parts = content["pre_tokenizer"]
    steps = parts["pretokenizers"] if parts["type"] == "Sequence" else [parts]
    if any(step.get("add_prefix_space") for step in steps):
        raise NotExpressible(ENGINE, "add_prefix_space", True, "one without it can be exported")
    regexes = [step["pattern"]["Regex"] for step in steps if step["type"] == "Split"]
    if not regexes and any(step.get("use_regex") for step in steps):
        return "gpt-2"
    ignores = bool(content["model"].get("ignore_merges"))  # as llama.cpp does for Llama 3 alone
    for regex in regexes:
        for start, name in SPLITS.items():
            if regex in PRETRAINED_REGEXES and regex.startswith(start) and ignores == (name == "llama-bpe"):
                return name
    raise NotExpressible(
        ENGINE, "pre_tokenizer", json.dumps(parts), "those of GPT-2, Llama 3 and Qwen2 can be"
    )


def _refuse_other_normalizers(normalizer: Mapping[str, Any] | None) -> None:
    """llama.cpp's has no normaliser: of regard's only NFC, which texts have that are typed."""
    for step in (normalizer or {}).get("normalizers", []):
        if step["type"] not in ("NFC", "Prepend"):
            name = "lowercase" if step["type"] == "Lowercase" else "normalization"
            value = True if name == "lowercase" else step["type"].lower()
            raise NotExpressible(ENGINE, name, value, "train a tokeniser without it")
