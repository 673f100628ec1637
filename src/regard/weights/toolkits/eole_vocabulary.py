"""The vocabularies of eole, `vocab.json`, and the transforms that segment a text."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.data.folder_file import read_file
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_pretrained import SpecialTokens
from regard.data.tokenizer_sentencepiece import from_sentencepiece
from regard.data.tokenizer_toolkits import from_subword_nmt, from_words
from regard.errors import FolderError
from regard.weights.toolkits.settings import Settings
from regard.weights.toolkits.toolkit import tokenizer_of

OF_TRAINING = ("filtertoolong", "clean", "switchout", "tokendrop", "tokenmask", "uppercase")
SPECIALS = {"unk_token": "<unk>", "pad_token": "<blank>", "bos_token": "<s>", "eos_token": "</s>"}
SAMPLING = ("src_subword_nbest", "tgt_subword_nbest", "src_subword_alpha", "tgt_subword_alpha")


def read_tokenizers(
    folder: Path, config: Mapping[str, Any], vocabularies: Mapping[str, Any], *, where: str | None = None
) -> tuple[Tokenizer, Tokenizer]:
    """The tokenisers of both sides; one object if their vocabularies and models are equal.

    `where` is the file of both tables for messages; None: config.json and vocab.json of the folder.
    """
    names = {**SPECIALS, **(vocabularies.get("specials") or {})}
    start = vocabularies.get("decoder_start_token", SPECIALS["bos_token"])
    kind, settings = _transform(where or str(folder / "config.json"), config)
    found = []
    for side in ("src", "tgt"):
        path = where or str(folder / "vocab.json")
        pieces = vocabularies.get(side)
        if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
            raise FolderError(f"{path}: {side} is not a list of pieces", "copy the folder again")
        vocabulary = {piece: number for number, piece in enumerate(pieces)}
        ids = {name: vocabulary.get(piece) for name, piece in {**names, "start": start}.items()}
        missing = [name for name in ("unk_token", "eos_token", "pad_token", "start") if ids[name] is None]
        if len(vocabulary) != len(pieces) or missing:
            raise FolderError(
                f"{path}: {side} has a piece twice, or lacks {missing}", "copy the folder again"
            )
        content = _content(folder, kind, settings, side, vocabulary, names)
        special = SpecialTokens(
            unk=vocabulary[names["unk_token"]],
            pad=vocabulary[names["pad_token"]],
            bos=vocabulary[start],
            eos=vocabulary[names["eos_token"]],
            vocab_size=len(pieces),
        )
        found.append(tokenizer_of(content, special, path))
    if settings is not None:
        settings.finish()
    return found[0], found[0] if found[0].to_bytes() == found[1].to_bytes() else found[1]


def _transform(where: str, config: Mapping[str, Any]) -> tuple[str | None, Settings | None]:
    """The transform that segments a text, and its settings; others that change a text are refused."""
    names = config.get("transforms") or []
    if not isinstance(names, list):
        raise FolderError(f"{where}: transforms is not a list", "copy the folder again")
    used = [name for name in names if name not in OF_TRAINING]
    if not used:
        return None, None
    if used not in (["sentencepiece"], ["bpe"]):
        raise FolderError(
            f"{where}: transforms = {used} is not supported",
            "sentencepiece and bpe are; or apply them yourself and remove them from the settings",
        )
    tables = config.get("transforms_configs") or {}
    table = tables.get(used[0]) if isinstance(tables, Mapping) else None
    settings = Settings(table if isinstance(table, Mapping) else {}, where, f"transforms_configs.{used[0]}.")
    settings.ignore(*SAMPLING)
    for name in ("src_vocab_threshold", "tgt_vocab_threshold"):
        settings.must_be(name, 0)
    for name in ("src_subword_vocab", "tgt_subword_vocab"):
        settings.must_be(name, "")
    settings.ignore("replace_newline_sentinel")
    return used[0], settings


def _content(
    folder: Path,
    kind: str | None,
    settings: Settings | None,
    side: str,
    vocabulary: Mapping[str, int],
    names: Mapping[str, str],
) -> dict[str, Any]:
    unk = names["unk_token"]
    if settings is None:
        return from_words(vocabulary, unk)
    if kind != "bpe" and unk != SPECIALS["unk_token"]:
        raise FolderError(
            f"{folder}: its unknown token is {unk!r}", f"only {SPECIALS['unk_token']!r} is read"
        )
    settings.take(str, "src_subword_model")  # of both sides, unless the target has its own
    own = side != "src" and settings.optional(str, "tgt_subword_model") is not None
    path = settings.file("tgt_subword_model" if own else "src_subword_model", folder)
    if kind == "bpe":
        codes = read_file(path).decode("utf-8").splitlines()
        special = [unk, *(name for name in names.values() if name != unk)]
        return from_subword_nmt(codes, vocabulary, special).content
    return from_sentencepiece(path, vocabulary)
