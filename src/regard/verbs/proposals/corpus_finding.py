"""A problem of a corpus, which `regard new` prints."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from regard.verbs.proposals.line_checks import LineProblem

FindingKind = Literal[
    "swapped",
    "misaligned",
    "language",
    "another language",
    "script",
    "segmented",
    "broken characters",
    "HTML entities",
    "HTML tags",
    "target without words",
    "odd length",
    "cut off",
    "one target",
    "no capitals",
    "decomposed letters",
    "no-break spaces",
    "overlap",
    "copies",
    "not distinguished",
    "duplicates",
    "several targets",
]
USUAL = ("not distinguished", "no capitals", "no-break spaces", "duplicates", "several targets")


@dataclass(frozen=True, kw_only=True)
class CorpusFinding:
    """One problem of a corpus; `text` describes it in one sentence."""

    kind: FindingKind
    text: str
    count: int  # of lines or pairs in the corpus; estimated if it is larger than the sample
    problem: LineProblem | None = None  # of single training pairs

    @property
    def is_usual(self) -> bool:
        """True for findings that good corpora have too; others look like mistakes."""
        return self.kind in USUAL

    def __str__(self) -> str:
        return self.text


def sides_of(files: Sequence[str]) -> str:
    """The files of a corpus, in words; of a table both sides of it."""
    return " and ".join(files) if len(set(files)) > 1 else f"both sides of {files[0]}"


def listed(places: Sequence[str], count: int) -> str:
    """Examples of `count` places, with an ellipsis if these are not all."""
    return ", ".join(places) + (", ..." if count > len(places) else "")
