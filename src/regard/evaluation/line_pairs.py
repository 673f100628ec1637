"""Line-aligned outputs and references, and the check that they have equally many lines."""

from collections.abc import Sequence

from regard.errors import DataError

References = Sequence[Sequence[str | None]]  # [r][i] is reference r of line i; None for a missing one


def check_aligned(
    hypotheses: Sequence[str], references: References, name: str = "the output", other: str = "reference"
) -> None:
    """Raises a DataError unless outputs and references have equally many lines, and each line a reference.

    `name` and `other` are what both are called in messages.
    """
    if not references:
        raise DataError(
            "no reference to compare with", "give at least one reference with one line per output"
        )
    if not hypotheses:
        raise DataError(f"{name} has no line, so there is nothing to score", "check the files")
    for number, reference in enumerate(references, start=1):
        if len(reference) != len(hypotheses):
            which = f"{other} {number}" if len(references) > 1 else f"the {other}"
            lines = "1 line" if len(hypotheses) == 1 else f"{len(hypotheses):,} lines"
            raise DataError(
                f"{name} has {lines}, {which} {len(reference):,}",
                "line n of each must have the same meaning; an empty line is an empty text",
            )
    for line, found in enumerate(zip(*references, strict=True), start=1):
        if all(text is None for text in found):
            raise DataError(f"line {line} has no {other}", "give it one, or remove the line")
