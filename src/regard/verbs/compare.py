"""Compare: scores of several systems' translations, and the significance of differences."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.errors import DataError
from regard.evaluation.translation import Comparison, compare_systems
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.lines import lines_of, references_of
from regard.verbs.shared.tokenize import Tokenize
from regard.verbs.shared.translation_scoring import scoring_for


@checked
def compare(
    systems: Sequence[str | Path],
    *,
    ref: str | Path | Iterable[str | Path],
    tokenize: Tokenize = "auto",
    lowercase: bool = False,
) -> list[Comparison]:
    """Compare translations by two systems or more with the first, the baseline, in each metric.

    Uses sacreBLEU's paired bootstrap resampling (Koehn 2004). All systems are scored with the same
    tokeniser.

    Args:
        systems: a file of translations by each system, the baseline first.
        ref: one or several files of references, aligned with the translations line by line.
        tokenize: sacreBLEU's tokeniser; "auto" is the one for the references' script, "none" is for text that
            is tokenised already.
        lowercase: ignore case.

    Raises:
        DataError: there are fewer than two files, a file is named twice, files are not aligned, or the
            tokeniser cannot be used.
    """
    names = [str(system) for system in systems]
    duplicates = [name for name in names if names.count(name) > 1]
    if duplicates:
        raise DataError(
            f"{duplicates[0]} is named twice", "name each system's output once, the baseline first"
        )
    references = references_of(ref)
    return compare_systems(
        {name: lines_of(name) for name in names},
        references,
        tokenize=scoring_for(references, tokenize).tokenize,
        lowercase=lowercase,
    )
