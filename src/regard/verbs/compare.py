"""Compare: several systems' translations of one test set, and whether their differences are chance."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import DataError
from regard.evaluation.translation import Comparison, compare_systems
from regard.verbs.arguments import checked
from regard.verbs.lines import lines_of, references_of
from regard.verbs.tokenize import Tokenize
from regard.verbs.translation_scoring import scoring_for


@checked
def compare(
    systems: Sequence[str | Path],
    *,
    ref: str | Path | Iterable[str | Path],
    tokenize: Tokenize = "auto",
    lowercase: bool = False,
) -> list[Comparison]:
    """Files of translations by two systems or more against the first, the baseline, metric by metric.

    Paired bootstrap resampling (Koehn 2004), as sacreBLEU does it. All systems are scored by the same
    `tokenize`, a tokeniser of sacreBLEU's; `auto` is the one that fits the script of the references.

    Args:
        systems: a file of translations by each system, the baseline first.
        ref: one file of references or several, aligned line by line.
        tokenize: what sacreBLEU counts as words; "none" for text that is tokenised already.
        lowercase: score without regard to case.

    Raises:
        DataError: fewer than two files, one of them twice, files that are not aligned, or a tokeniser that
            cannot be used here.
    """
    names = [str(system) for system in systems]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise DataError(f"{twice[0]} is named twice", "name each system's output once, the baseline first")
    references = references_of(ref)
    return compare_systems(
        {name: lines_of(name) for name in names},
        references,
        tokenize=scoring_for(references, tokenize).tokenize,
        lowercase=lowercase,
    )
