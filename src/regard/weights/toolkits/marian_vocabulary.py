"""The vocabularies of Marian: SentencePiece files, or YAML of pieces and ids."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.folder_file import read_file
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_pretrained import SpecialTokens
from regard.data.tokenizer_sentencepiece import from_sentencepiece
from regard.data.tokenizer_toolkits import from_subword_nmt, from_words
from regard.errors import FolderError
from regard.weights.toolkits.toolkit import refuse_other_size, tokenizer_of
from regard.weights.toolkits.yaml_file import read_yaml_table

END, UNKNOWN = ("</s>", "eos"), ("<unk>", "UNK")
START = "<pad>"  # the name of the token that regard adds
COMMON = ("vocab.spm", "vocab.yml", "vocab.yaml", "vocab.json")
SIDES = {"source": ("source", "src"), "target": ("target", "trg", "tgt")}


def find_vocabularies(folder: Path, decoder: Mapping[str, Any]) -> tuple[Path, Path]:
    """The vocabularies of source and target: those that the decoder's settings name, else by their names.

    Raises:
        FolderError: they are missing, or several could be meant.
    """
    named = decoder.get("vocabs")
    if isinstance(named, list) and len(named) == 2 and all(isinstance(each, str) for each in named):
        source, target = (folder / Path(each).name for each in named)
        for each in (source, target):
            if not each.is_file():
                raise FolderError(f"{each} is missing", "decoder.yml names it: copy it beside the model")
        return source, target
    if isinstance(named, list) and named:
        raise FolderError(
            f"{folder}: decoder.yml names {len(named)} vocabularies", "only models of one source are read"
        )
    return _by_name(folder)


def _by_name(folder: Path) -> tuple[Path, Path]:
    for name in COMMON:
        if (folder / name).is_file():
            return folder / name, folder / name
    sides = []
    for names in SIDES.values():
        found = [each for name in names for each in sorted(folder.glob(f"*{name}*")) if _is_vocabulary(each)]
        found = [each for each in found if each.suffix != ".spm"] or found
        sides.append(found)
    if all(len(found) == 1 for found in sides):
        return sides[0][0], sides[1][0]
    common = [each for each in sorted(folder.glob("*vocab*")) if _is_vocabulary(each)]
    if len(common) == 1:
        return common[0], common[0]
    raise FolderError(
        f"{folder}: which files are its vocabularies is not clear",
        "put them beside the model as vocab.spm or vocab.yml, or name both as vocabs: in decoder.yml",
    )


def _is_vocabulary(path: Path) -> bool:
    return path.suffix in (".spm", ".yml", ".yaml", ".json") and path.name != "decoder.yml"


def read_tokenizer(folder: Path, path: Path, side: str, rows: int, vocab_size: int) -> Tokenizer:
    """The tokeniser of one side.

    `rows` are the pieces that the model knows; the token after them is the decoder's first. A YAML
    vocabulary is segmented by `source.spm` and `target.spm` or the codes `source.bpe` and `target.bpe` of
    its folder, as in OPUS-MT; without them a text must have its pieces between spaces.
    """
    if path.suffix == ".spm":
        content = from_sentencepiece(path, more=[START])
        count = len(content["model"]["vocab"]) - 1
        refuse_other_size(count, rows, str(path))
        pieces = {str(piece): number for number, (piece, _) in enumerate(content["model"]["vocab"])}
        return tokenizer_of(content, _special(pieces, rows, vocab_size, path), str(path))
    vocabulary = {piece: number for piece, number in _numbered(path).items() if number < rows}
    refuse_other_size(len(vocabulary), rows, str(path))
    special = _special(vocabulary, rows, vocab_size, path)
    unk = next(name for name in UNKNOWN if name in vocabulary)
    spm, codes = (_existing(folder, [f"{name}.{kind}" for name in SIDES[side]]) for kind in ("spm", "bpe"))
    if spm is not None:
        if unk != UNKNOWN[0]:
            raise FolderError(f"{path} has no {UNKNOWN[0]}", "is it the vocabulary of this model?")
        content = from_sentencepiece(spm, {**vocabulary, START: rows})
    elif codes is not None:
        lines = read_file(codes).decode("utf-8", "replace").splitlines()
        end = next(name for name in END if name in vocabulary)
        content = from_subword_nmt(lines, {**vocabulary, START: rows}, [unk, end, START]).content
    else:
        content = from_words({**vocabulary, START: rows}, unk)
    return tokenizer_of(content, special, str(path))


def _existing(folder: Path, names: Sequence[str]) -> Path | None:
    """The first of these files that exists."""
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _numbered(path: Path) -> dict[str, int]:
    """The pieces of a YAML vocabulary and their ids."""
    table = read_yaml_table(path)
    try:
        found = {piece: int(number) for piece, number in table.items()}
    except (TypeError, ValueError) as error:
        raise FolderError(f"{path} is not a table of pieces and ids", "is it a vocabulary?") from error
    if not found or sorted(found.values()) != list(range(len(found))):
        raise FolderError(f"{path}: its ids have gaps", "copy the vocabulary again")
    return found


def _special(pieces: Mapping[str, int], rows: int, vocab_size: int, path: Path) -> SpecialTokens:
    end, unknown = (
        next((pieces[name] for name in names if name in pieces), None) for names in (END, UNKNOWN)
    )
    if end is None or unknown is None:
        raise FolderError(f"{path} has no {END[0]} or no {UNKNOWN[0]}", "is it the vocabulary of this model?")
    return SpecialTokens(pad=rows, bos=rows, eos=end, unk=unknown, vocab_size=vocab_size)
