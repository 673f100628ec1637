"""Checks of a run's data: it has not changed since the run began, and its tokeniser knows most of it."""

import itertools
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from regard.data.tokenizer import Tokenizer
from regard.errors import DataError, FolderError
from regard.weights.folder import replace_file
from regard.weights.strict_json import json_bytes, read_json

CORPORA = "corpora.json"  # file of a run's data folder: the fingerprint of each part
SAMPLED_TEXTS = 1000  # how many of the first texts a pretrained tokeniser is checked with
TEXTS_AT_ONCE = 1000  # texts that are encoded by one call


class ChangedData(FolderError):
    """A part of a run's data is not what it was when they were prepared."""


def refuse_other_data(corpora: Mapping[str, tuple[str, str]], folder: Path) -> None:
    """Raise an error if a run's data have changed since it began.

    The first call records the fingerprints in `folder`, the run's data folder; later calls compare.

    Args:
        corpora: the name of each part's files, for messages, and the part's fingerprint, such as
            {"train": ("europarl.tsv", "9f2c...")}.

    Raises:
        ChangedData: a part has changed.
    """
    current = {part: fingerprint for part, (_, fingerprint) in corpora.items()}
    if not (folder / CORPORA).exists():
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(folder / CORPORA, json_bytes(current))
        return
    recorded = read_json(folder / CORPORA)
    for part, (name, fingerprint) in corpora.items():
        if recorded.get(part) != fingerprint:
            raise ChangedData(
                f"data.{part} ({name}) has changed since this run began",
                "put the old files back, or train on the new ones into another folder, from this model:"
                f" --out DIR --init {shlex.quote(str(folder.parent))}",
            )


def refuse_unknown(texts: Iterable[str], tokenizer: Tokenizer, origin: str) -> None:
    """Raise an error if the tokeniser of a pretrained model does not fit these texts.

    Args:
        origin: the pretrained model, for the message.

    Raises:
        DataError: more than half of the tokens of the first texts are unknown.
    """
    encoded = tokenizer.encode_batch(list(itertools.islice(texts, SAMPLED_TEXTS)))
    pieces = sum(map(len, encoded))
    unknown = sum(ids.count(tokenizer.unk_id) for ids in encoded)
    if 2 * unknown > pieces:
        raise DataError(
            f"the vocabulary of {origin} does not fit: {100 * unknown / pieces:.0f} % of the training text's"
            " tokens are unknown",
            "start from a model that was trained on such texts, or train from scratch: leave out --init",
        )


def refuse_unknown_words(texts: Iterable[str], tokenizer: Tokenizer) -> float:
    """The share of unknown tokens, 0 to 1, in the texts that a tokeniser of whole words was trained on.

    Raises:
        DataError: more than half of the tokens are unknown.
    """
    rest, pieces, unknown = iter(texts), 0, 0
    while some := list(itertools.islice(rest, TEXTS_AT_ONCE)):
        for ids in tokenizer.encode_batch(some):
            pieces += len(ids)
            unknown += ids.count(tokenizer.unk_id)
    if 2 * unknown > pieces:
        raise DataError(
            f"{100 * unknown / pieces:.0f} % of the training text's tokens are unknown: its words are rarer"
            " than tokenizer.min_count, or more than tokenizer.vocab_size",
            "lower tokenizer.min_count, raise tokenizer.vocab_size, or choose tokenizer.kind = 'bpe'",
        )
    return unknown / max(pieces, 1)


def counts_of_skipped(skipped: Mapping[str, int]) -> str:
    """How many lines were left out for each reason, such as "; 12 left out: empty", to end a message."""
    return "".join(f"; {count:,} left out: {reason}" for reason, count in sorted(skipped.items()))
