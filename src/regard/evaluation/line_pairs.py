"""Outputs and references line by line: as many of each, or nothing is scored."""

from collections.abc import Sequence

from regard.errors import DataError

References = Sequence[
    Sequence[str | None]
]  # references[r][i]: reference r of line i, None where it has fewer


def check_aligned(hypotheses: Sequence[str], references: References, name: str = "the output") -> None:
    """Refuse what cannot be compared line by line."""
    if not references:
        raise DataError("no reference to compare with", "give one reference or more, each with a line a line")
    if not hypotheses:
        raise DataError(f"{name} has no line, so there is nothing to score", "look at the files")
    for number, reference in enumerate(references, start=1):
        if len(reference) != len(hypotheses):
            which = f"reference {number}" if len(references) > 1 else "the reference"
            lines = "1 line" if len(hypotheses) == 1 else f"{len(hypotheses):,} lines"
            raise DataError(
                f"{name} has {lines}, {which} {len(reference):,}",
                "line n of each must say the same: an empty line stands for an empty text",
            )
    for line, found in enumerate(zip(*references, strict=True), start=1):
        if all(text is None for text in found):
            raise DataError(f"line {line} has no reference", "give it one, or leave the line out")
