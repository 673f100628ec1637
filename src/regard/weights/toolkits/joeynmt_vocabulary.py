"""The vocabularies and tokenisers of JoeyNMT: words, characters, subword-nmt and SentencePiece."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.folder_file import read_file
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_file import SPACES
from regard.data.tokenizer_pretrained import SpecialTokens, pipeline_parts, replacement
from regard.data.tokenizer_sentencepiece import from_sentencepiece
from regard.data.tokenizer_toolkits import from_characters, from_subword_nmt, from_words
from regard.errors import FolderError
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.toolkit import tokenizer_of

LIMITS = ("lang", "max_length", "min_length", "voc_limit", "voc_min_freq", "voc_file")
UNICODE = {"’": "'", "“": '"', "”": '"', "\u200b": ""}
BEFORE_PUNCTUATION = {f" {mark}": mark for mark in "?!,.:"}


@dataclass(frozen=True, kw_only=True)
class SpecialSymbols:
    """The ids and the names of the special tokens."""

    unk: int
    pad: int
    bos: int
    eos: int
    names: tuple[str, str, str, str]  # in this order

    @classmethod
    def of(cls, data: Settings) -> "SpecialSymbols":
        """The symbols that the section `data` names; JoeyNMT's defaults for those that it does not name."""
        data.ignore("special_symbols")
        table = data.table.get("special_symbols")
        settings = Settings(table if isinstance(table, Mapping) else {}, data.where, "data.special_symbols.")
        settings.must_be("sep_token", None, "")
        settings.must_be("sep_id", None, "")
        settings.must_be("lang_tags", [], "")
        tokens = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
        unk, pad, bos, eos = (settings.take(int, f"{name}_id", place) for place, name in enumerate(tokens))
        names = [settings.take(str, f"{name}_token", token) for name, token in tokens.items()]
        settings.finish()
        return cls(unk=unk, pad=pad, bos=bos, eos=eos, names=(names[0], names[1], names[2], names[3]))


def read_tokenizer(folder: Path, settings: Settings, side: str, symbols: SpecialSymbols) -> Tokenizer:
    """The tokeniser of one side, "src" or "trg"."""
    settings.ignore(*LIMITS)
    path = folder / f"{side}_vocab.txt"
    if not path.is_file():
        raise FolderError(
            f"{path} is missing; the vocabulary of data.{side}",
            "copy it from the training's model_dir, where JoeyNMT wrote it beside the checkpoint",
        )
    lines = read_file(path).decode("utf-8").splitlines()
    vocabulary = {piece: number for number, piece in enumerate(lines)}
    numbers = (symbols.unk, symbols.pad, symbols.bos, symbols.eos)
    if len(vocabulary) != len(lines) or any(
        vocabulary.get(name) != number for name, number in zip(symbols.names, numbers, strict=True)
    ):
        raise FolderError(f"{path} lacks the special tokens of config.yaml", "copy the folder again")
    content, splits = _content(folder, settings, vocabulary, symbols)
    content = _normalised(content, settings)
    settings.finish()
    special = SpecialTokens(
        unk=symbols.unk,
        pad=symbols.pad,
        bos=symbols.bos,
        eos=symbols.eos,
        vocab_size=len(vocabulary),
        splits=splits,
    )
    return tokenizer_of(content, special, str(path))


def _content(
    folder: Path, settings: Settings, vocabulary: Mapping[str, int], symbols: SpecialSymbols
) -> tuple[dict[str, Any], Mapping[int, tuple[int, ...]]]:
    level = settings.take(str, "level", "word")
    kind = settings.take(str, "tokenizer_type", settings.take(str, "bpe_type", "sentencepiece"))
    tokenizer = settings.section("tokenizer_cfg") if settings.table.get("tokenizer_cfg") else None
    tokenizer = tokenizer or Settings({}, settings.where, f"{settings.path}tokenizer_cfg.")
    settings.ignore("tokenizer_cfg")
    tokenizer.must_be(
        "pretokenizer",
        "none",
        hint="tokenise texts by sacremoses before, and set pretokenizer: none in config.yaml",
    )
    unk = symbols.names[0]
    splits: Mapping[int, tuple[int, ...]] = {}
    if level in ("word", "char"):
        tokenizer.ignore("lang")
        content = from_words(vocabulary, unk) if level == "word" else from_characters(vocabulary, unk)
    elif level == "bpe" and kind == "sentencepiece":
        tokenizer.ignore("nbest_size", "alpha", "model_type", "lang", "character_coverage")
        content = from_sentencepiece(tokenizer.file("model_file", folder), vocabulary, restricted=True)
    elif level == "bpe" and kind == "subword-nmt":
        tokenizer.ignore("dropout", "num_merges", "lang")
        joiner = tokenizer.take(str, "separator", "@@")
        codes = read_file(tokenizer.file("codes", folder)).decode("utf-8").splitlines()
        content, splits = from_subword_nmt(codes, vocabulary, symbols.names, joiner=joiner, restricted=True)
    else:
        name = "tokenizer_type" if level == "bpe" else "level"
        known = "sentencepiece and subword-nmt are" if level == "bpe" else "word, char and bpe are"
        raise settings.refusal(name, known)
    tokenizer.finish()
    return content, splits


def _normalised(content: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The tokenizer.json with the normalisation of a text, and of an output, that the settings name."""
    steps: list[dict[str, Any]] = []
    decoding: list[dict[str, Any]] = []
    if settings.take(bool, "normalize", False):
        steps.append({"type": "NFKC"})
        steps += [replacement({"String": old}, new) for old, new in UNICODE.items()]
        steps.append(replacement({"Regex": SPACES}, " "))
        decoding = [replacement({"String": old}, new) for old, new in BEFORE_PUNCTUATION.items()]
        steps += [*decoding, {"type": "Strip", "strip_left": True, "strip_right": True}]
    if settings.take(bool, "lowercase", False):
        steps.append({"type": "Lowercase"})
    if not steps:
        return content
    own = [content["normalizer"]] if content["normalizer"] else []
    changed = {**content, "normalizer": pipeline_parts("normalizers", [*steps, *own])}
    if decoding:
        # words are joined by spaces where there is no decoder
        before = content["decoder"] or {"type": "WordPiece", "prefix": "\0", "cleanup": False}
        parts = [before, {"type": "Fuse"}, *decoding]
        changed["decoder"] = pipeline_parts("decoders", parts)
    return changed
