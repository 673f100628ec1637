"""Compare: several systems' translations of one test set, and whether their differences are chance."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from regard.errors import DataError
from regard.evaluation.translation import Comparison, compare_systems
from regard.verbs.arguments import checked
from regard.verbs.lines import lines_of, references_of


@checked
def compare(
    systems: Sequence[str | Path],
    *,
    ref: str | Path | Iterable[str | Path],
    tokenize: Literal["13a", "none"] = "13a",
    lowercase: bool = False,
) -> list[Comparison]:
    """Files of translations by two systems or more against the first, the baseline, metric by metric.

    Paired bootstrap resampling (Koehn 2004), as sacreBLEU does it.

    Args:
        systems: a file of translations by each system, the baseline first.
        ref: one file of references or several, aligned line by line.
        tokenize: what sacreBLEU counts as words; "none" for text that is tokenised already.
        lowercase: score without regard to case.

    Raises:
        DataError: fewer than two files, one of them twice, or files that are not aligned.
    """
    names = [str(system) for system in systems]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{twice[0]} is named twice", "name each system's output once, the baseline first")
    return compare_systems(
        {name: lines_of(name) for name in names}, references_of(ref), tokenize=tokenize, lowercase=lowercase
    )
