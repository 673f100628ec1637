"""Data sets in a run: the same as when it began, and what was left out of them, in words."""

from collections.abc import Mapping
from pathlib import Path

from regard.errors import FolderError
from regard.weights.folder import replace_file
from regard.weights.strict_json import json_bytes, read_json

CORPORA = "corpora.json"


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


def counts_of_skipped(skipped: Mapping[str, int]) -> str:
    return "".join(f"; {count:,} left out: {reason}" for reason, count in sorted(skipped.items()))
