"""BLEU by the length of the source: how well a model holds out as sentences grow (Cho et al. 2014)."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from regard.evaluation.line_pairs import References, check_aligned
from regard.evaluation.translation import corpus_scores, resolved

LONGEST = (5, 10, 15, 20, 25, 30, 40, 50, 75, 100)  # the longest source of each group but the last


@dataclass(frozen=True, kw_only=True)
class LengthScore:
    """The sentences whose source has `shortest` to `longest` words, and the BLEU of these alone."""

    shortest: int
    longest: int | None  # None: there is no end to them
    sentences: int
    bleu: float

    @property
    def words(self) -> str:
        """The lengths, for people."""
        return f"{self.shortest} and more" if self.longest is None else f"{self.shortest} to {self.longest}"


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = "auto",
    lowercase: bool = False,
) -> list[LengthScore]:
    """BLEU of the short sources, of longer ones, and so on; groups without a sentence are left out.

    Words of the source stand between white space. For the other arguments see `corpus_scores`.

    Raises:
        DataError: the counts of lines differ, or there are none.
    """
    check_aligned(hypotheses, references)
    check_aligned(sources, [hypotheses], "the source")
    tokenize = resolved(tokenize, references)  # by all references, so that each group is scored alike
    groups: dict[int, list[int]] = {}
    for line, source in enumerate(sources):
        groups.setdefault(bisect_left(LONGEST, len(source.split())), []).append(line)
    found = []
    for group, lines in sorted(groups.items()):
        [score] = corpus_scores(
            [hypotheses[line] for line in lines],
            [[stream[line] for line in lines] for stream in references],
            tokenize=tokenize,
            lowercase=lowercase,
            bootstrap=0,
            metrics=("bleu",),
        )
        found.append(
            LengthScore(
                shortest=LONGEST[group - 1] + 1 if group else 0,
                longest=LONGEST[group] if group < len(LONGEST) else None,
                sentences=len(lines),
                bleu=score.value,
            )
        )
    return found
