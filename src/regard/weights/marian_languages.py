"""Marian's language tokens in a tokenizer.json: a text may spell them in transformers, but not here."""

import re
from collections.abc import Mapping
from typing import Any

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import UNMATCHED
from regard.data.tokenizer_pretrained import replacement

LANGUAGE = re.compile(rf"(?:{UNMATCHED}| )?(>>[^<>\s]+<<)")  # Marian's; older folders have a space before it


def language_tokens(tokenizer: Tokenizer) -> list[str]:
    """The tokens of Marian's languages, such as `>>fra<<`, with one of which a text begins."""
    return [] if tokenizer.trained_by_regard else [text for text, _ in _named_languages(tokenizer).values()]


def _named_languages(tokenizer: Tokenizer) -> dict[str, tuple[str, int]]:
    """The pieces that are languages: how a text spells them, and their ids, in this order."""
    found = sorted((number, piece) for piece, number in tokenizer.vocabulary().items() if ">>" in piece)
    matches = ((number, LANGUAGE.fullmatch(piece)) for number, piece in found)
    return {match[0]: (match[1], number) for number, match in matches if match}


def with_languages(content: dict[str, Any], tokenizer: Tokenizer) -> dict[str, Any]:
    """The tokenizer.json with Marian's languages as tokens that a text may spell, as in transformers."""
    languages = {} if tokenizer.trained_by_regard else _named_languages(tokenizer)
    if not languages:
        return content
    names = {piece: text for piece, (text, _) in languages.items()}
    known = {token["content"] for token in content["added_tokens"]}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": number, "content": text, **flags, "special": True}
        for text, number in languages.values()
        if text not in known
    ]
    every = sorted([*content["added_tokens"], *added], key=lambda token: token["id"])
    model = _renamed(content["model"], names)
    return {**content, "added_tokens": every, "model": model, "decoder": _with_mark(content["decoder"])}


def _with_mark(decoder: Mapping[str, Any]) -> Mapping[str, Any]:
    """The decoder with the step that removes the mark, which those of older folders lack."""
    if _has_mark(decoder):
        return decoder
    step = replacement({"String": UNMATCHED}, "")
    return {"type": "Sequence", "decoders": [step, *decoder.get("decoders", [decoder])]}


def _has_mark(decoder: Mapping[str, Any]) -> bool:
    return any(step.get("pattern") == {"String": UNMATCHED} for step in decoder.get("decoders", ()))


def without_languages(content: dict[str, Any]) -> dict[str, Any]:
    """Undoes `with_languages`, in a file that regard wrote: texts do not match their pieces here."""
    if not _has_mark(content.get("decoder") or {}):
        return content
    names = {token["content"] for token in content["added_tokens"] if LANGUAGE.fullmatch(token["content"])}
    kept = [token for token in content["added_tokens"] if token["content"] not in names]
    model = _renamed(content["model"], {name: f"{UNMATCHED}{name}" for name in names})
    return {**content, "added_tokens": kept, "model": model}


def _renamed(model: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The model of a tokenizer.json with other names for some pieces."""
    pieces = model["vocab"]
    if isinstance(pieces, dict):
        return {**model, "vocab": {names.get(piece, piece): number for piece, number in pieces.items()}}
    return {**model, "vocab": [[names.get(piece, piece), score] for piece, score in pieces]}
