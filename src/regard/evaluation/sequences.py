"""Exact match, and word and character error rates by edit distance (Levenshtein 1966).

If a line has several references, the nearest one counts. All results are fractions.
"""

from collections.abc import Callable, Sequence

from regard.evaluation.line_pairs import References, check_aligned


def exact_match(hypotheses: Sequence[str], references: References) -> float:
    """The fraction of lines that equal one of their references."""
    return exact_matches(hypotheses, references) / len(hypotheses)


def exact_matches(hypotheses: Sequence[str], references: References) -> int:
    """The number of lines that equal one of their references."""
    check_aligned(hypotheses, references)
    accepted = zip(*references, strict=True)
    return sum(text in answers for text, answers in zip(hypotheses, accepted, strict=True))


def word_error_rate(hypotheses: Sequence[str], references: References) -> float:
    """Word edits divided by the words of the nearest reference; for phonemes, the phoneme error rate.

    Words are separated by white space. The rate is above 1 if the output is much longer than the reference.
    (In grapheme-to-phoneme conversion, "word error rate" usually means 1 - `exact_match`.)
    """
    return _rate(*word_edits(hypotheses, references))


def word_edits(hypotheses: Sequence[str], references: References) -> tuple[list[int], list[int]]:
    """For each line, the word edits to the nearest reference and the number of its words."""
    return _edits(hypotheses, references, str.split)


def character_error_rate(hypotheses: Sequence[str], references: References) -> float:
    """Character edits divided by the characters of the nearest reference."""
    return _rate(*_edits(hypotheses, references, list))


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The fewest insertions, deletions and substitutions that turn one sequence into the other."""
    if one == other:
        return 0
    above = list(range(len(other) + 1))  # the previous row of the table
    for row, item in enumerate(one, start=1):
        here = [row]
        for column, other_item in enumerate(other, start=1):
            here.append(min(here[-1] + 1, above[column] + 1, above[column - 1] + (item != other_item)))
        above = here
    return above[-1]


def _edits(
    hypotheses: Sequence[str], references: References, units: Callable[[str], list[str]]
) -> tuple[list[int], list[int]]:
    check_aligned(hypotheses, references)
    edits, lengths = [], []
    for text, answers in zip(hypotheses, zip(*references, strict=True), strict=True):
        found = units(text)
        nearest = min(
            (edit_distance(found, reference), len(reference))
            for reference in (units(answer) for answer in answers if answer is not None)
        )
        edits.append(nearest[0])
        lengths.append(nearest[1])
    return edits, lengths


def _rate(edits: Sequence[int], lengths: Sequence[int]) -> float:
    return sum(edits) / max(sum(lengths), 1)
