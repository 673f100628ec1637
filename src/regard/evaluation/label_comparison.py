"""Accuracies of several classifiers, compared with the first by McNemar's exact test (McNemar 1947)."""

import math
from collections.abc import Mapping, Sequence

from regard.data.tables import MAX_CLASSES, MAX_LABEL_LENGTH
from regard.errors import DataError
from regard.evaluation.line_pairs import check_aligned
from regard.evaluation.proportion import wilson_interval
from regard.evaluation.score import version_fact
from regard.evaluation.translation import Comparison, SystemScore, refuse_no_system

MIN_LINES = 20  # fewer lines may be alike by chance
LINES_OF_CLASS = 2  # on average, at least


def are_labels(files: Sequence[Sequence[str]]) -> bool:
    """True if aligned lines, 20 or more, look like labels: all share a few different, short lines."""
    different = {line.strip() for lines in files for line in lines}
    lines = min(map(len, files), default=0)
    characters = sum(len(line.strip()) for each in files for line in each)
    return (
        lines >= MIN_LINES
        and len(different) <= min(MAX_CLASSES, lines / LINES_OF_CLASS)
        and "" not in different
        and characters <= MAX_LABEL_LENGTH * sum(map(len, files))
    )


def compare_labels(
    systems: Mapping[str, Sequence[str]], reference: Sequence[str], *, lowercase: bool = False
) -> Comparison:
    """The accuracy of each system in percent, with Wilson's interval; the first is the baseline.

    Spaces around a label are ignored, and with `lowercase` its case.

    Raises:
        DataError: there is no system or no line, or lines are not aligned.
    """
    refuse_no_system(systems)
    true = [_label(line, lowercase) for line in reference]
    right = {}
    for name, lines in systems.items():
        check_aligned(lines, [reference], name)
        right[name] = [_label(line, lowercase) == label for line, label in zip(lines, true, strict=True)]
    if not true:
        raise DataError("there is no label", "give files with a label on each line")
    baseline = next(iter(right.values()))
    return Comparison(
        name="accuracy",
        signature=f"labels:{len(true)}|classes:{len(set(true))}|interval:wilson|test:mcnemar-exact"
        f"|{version_fact()}",
        systems=tuple(
            _score(name, each, None if place == 0 else baseline)
            for place, (name, each) in enumerate(right.items())
        ),
    )


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> float:
    """The p-value of two classifiers' difference: two-sided, exact, from the examples that one gets right.

    The probability of a split of these examples at least as uneven as the one seen, if either classifier is
    as likely to be the right one.
    """
    pairs = list(zip(first, second, strict=True))
    fewer, more = sorted((pairs.count((True, False)), pairs.count((False, True))))
    count = fewer + more
    logs = (
        math.lgamma(count + 1) - math.lgamma(k + 1) - math.lgamma(count - k + 1) - count * math.log(2)
        for k in range(fewer + 1)
    )
    return 1.0 if fewer == more else min(1.0, 2 * math.fsum(map(math.exp, logs)))


def _score(name: str, right: Sequence[bool], baseline: Sequence[bool] | None) -> SystemScore:
    low, high = wilson_interval(sum(right), len(right))
    return SystemScore(
        system=name,
        value=100 * sum(right) / len(right),
        low=100 * low,
        high=100 * high,
        p_value=None if baseline is None else mcnemar(baseline, right),
    )


def _label(line: str, lowercase: bool) -> str:
    return line.strip().casefold() if lowercase else line.strip()
