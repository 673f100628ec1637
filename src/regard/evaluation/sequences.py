"""Exact matches, and word edits by edit distance (Levenshtein 1966).

If a line has several references, the nearest one counts.
"""

from collections.abc import Sequence

from regard.evaluation.line_pairs import References, check_aligned


def exact_matches(hypotheses: Sequence[str], references: References) -> int:
    """The number of lines that equal one of their references."""
    check_aligned(hypotheses, references)
    accepted = zip(*references, strict=True)
    return sum(text in answers for text, answers in zip(hypotheses, accepted, strict=True))


def word_edits(hypotheses: Sequence[str], references: References) -> tuple[list[int], list[int]]:
    """For each line, the word edits to the nearest reference and the number of its words.

    Words are separated by white space. The sum of the edits divided by the sum of the words is the word
    error rate; for phonemes, the phoneme error rate.
    """
    check_aligned(hypotheses, references)
    edits, lengths = [], []
    for text, answers in zip(hypotheses, zip(*references, strict=True), strict=True):
        words = text.split()
        nearest = min(
            (edit_distance(words, reference), len(reference))
            for reference in (answer.split() for answer in answers if answer is not None)
        )
        edits.append(nearest[0])
        lengths.append(nearest[1])
    return edits, lengths


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
