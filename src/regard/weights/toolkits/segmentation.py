"""How a toolkit's texts are segmented: BPE codes or a SentencePiece model in its folder, else words."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.data.folder_file import read_file
from regard.data.tokenizer_sentencepiece import from_sentencepiece
from regard.data.tokenizer_toolkits import from_subword_nmt, from_words
from regard.errors import FolderError

CODES = ("bpecodes", "bpe.codes", "codes", "code", "code.txt", "codes.txt")
MODELS = ("sentencepiece.bpe.model", "sentencepiece.model", "spm.model", "spiece.model")
FASTBPE = re.compile(r"(\S+ \S+) \d+")  # a merge and how often it was seen


def segmentation(
    folder: Path, vocabulary: Mapping[str, int], special: Sequence[str], suffixes: Sequence[str] = ()
) -> dict[str, Any]:
    """The tokenizer.json of a vocabulary, by the files of its folder.

    `special` are tokens that no text encodes to, the unknown token first. The names of BPE codes may have one
    of `suffixes`, such as a language.
    """
    names = [f"{name}.{suffix}" for suffix in suffixes for name in CODES] + list(CODES)
    codes, model = (
        next((folder / name for name in each if (folder / name).is_file()), None) for each in (names, MODELS)
    )
    if codes is not None and model is not None:
        raise FolderError(f"{folder} has {codes.name} and {model.name}", "keep the one that the model uses")
    if model is not None:
        return from_sentencepiece(model, vocabulary)
    if codes is None:
        return from_words(vocabulary, special[0])
    lines = read_file(codes).decode("utf-8").splitlines()
    if lines and all(FASTBPE.fullmatch(line) for line in lines if line):  # fastBPE writes no version
        lines = ["#version: 0.2", *(line.rpartition(" ")[0] for line in lines)]
    return from_subword_nmt(lines, vocabulary, special).content
