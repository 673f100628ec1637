"""Data sets in a run: as they were when it began, and in known letters; what of them is left out."""

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path

from regard.data.tokenizer import Tokenizer
from regard.errors import DataError, FolderError
from regard.weights.folder import replace_file
from regard.weights.strict_json import json_bytes, read_json

CORPORA = "corpora.json"
SAMPLE = 1000  # texts that a tokeniser is tried on


def refuse_other_data(corpora: Mapping[str, tuple[str, str]], folder: Path) -> None:
    """Write down what the data are (part -> name, fingerprint); whoever comes again must bring the same.

    Raises:
        FolderError: a part is not what it was.
    """
    now = {part: fingerprint for part, (_, fingerprint) in corpora.items()}
    if not (folder / CORPORA).exists():
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / CORPORA, json_bytes(now))
        return
    then = read_json(folder / CORPORA)
    for part, (name, fingerprint) in corpora.items():
        if then.get(part) != fingerprint:
            raise FolderError(
                f"data.{part} ({name}) is not what this run began with",
                "put the old files back, or train into another folder with --out",
            )


def refuse_unknown(texts: Iterable[str], tokenizer: Tokenizer, origin: str) -> None:
    """See that a tokeniser that was made for other texts can read these.

    Raises:
        DataError: half of what the first texts are made of is unknown to it.
    """
    encoded = tokenizer.encode_batch(list(itertools.islice(texts, SAMPLE)))
    pieces = sum(map(len, encoded))
    unknown = sum(ids.count(tokenizer.unk_id) for ids in encoded)
    if 2 * unknown > pieces:
        raise DataError(
            f"the vocabulary of {origin} is another: {100 * unknown / pieces:.0f} % of the training text's"
            " tokens are unknown to it",
            "start from a model that was trained on such texts, or from none: leave out --init",
        )


def counts_of_skipped(skipped: Mapping[str, int]) -> str:
    return "".join(f"; {count:,} left out: {reason}" for reason, count in sorted(skipped.items()))
