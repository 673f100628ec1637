"""The dictionaries of fairseq, `dict.LANGUAGE.txt`."""

from collections.abc import Mapping
from pathlib import Path

from regard.data.folder_file import read_file
from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_pretrained import SpecialTokens
from regard.errors import FolderError
from regard.weights.toolkits.segmentation import segmentation
from regard.weights.toolkits.toolkit import tokenizer_of

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
BOS, PAD, EOS, UNK = range(4)
OVERWRITE = "#fairseq:overwrite"


def read_tokenizers(folder: Path, source: str | None, target: str | None) -> tuple[Tokenizer, Tokenizer]:
    """The tokenisers of both languages; one object if their dictionaries are equal."""
    if source is None or target is None:
        raise FolderError(
            f"{folder}: the checkpoint has no source_lang and target_lang", "is it a translator?"
        )
    paths = [folder / f"dict.{Path(language).name}.txt" for language in (source, target)]
    dictionaries = [_dictionary(path) for path in paths]
    first = _tokenizer(folder, dictionaries[0], source, paths[0])
    if dictionaries[0] == dictionaries[1]:
        return first, first
    return first, _tokenizer(folder, dictionaries[1], target, paths[1])


def _dictionary(path: Path) -> dict[str, int]:
    """The tokens and their ids: the special ones, then a token and its count in each line."""
    found = {token: number for number, token in enumerate(SPECIAL)}
    for number, line in enumerate(read_file(path).decode("utf-8").split("\n"), start=1):
        token, _, count = line.rstrip().rpartition(" ")
        if count == OVERWRITE:
            raise FolderError(f"{path}: line {number} has {OVERWRITE}", "such dictionaries are not supported")
        if not line.strip():
            continue
        if not token or not count.isdigit() or token in found:
            raise FolderError(
                f"{path}: line {number} is not a new token with its count: {line[:40]!r}",
                "is it a dictionary of fairseq?",
            )
        found[token] = len(found)
    return found


def _tokenizer(folder: Path, dictionary: Mapping[str, int], language: str, path: Path) -> Tokenizer:
    special = SpecialTokens(pad=PAD, unk=UNK, bos=EOS, eos=EOS, vocab_size=len(dictionary))
    content = segmentation(folder, dictionary, (SPECIAL[UNK], *SPECIAL[:UNK]), (language,))
    return tokenizer_of(content, special, str(path))
