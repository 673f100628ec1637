"""BLEU by source length: how translations change with sentence length (Cho et al. 2014)."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from regard.evaluation.line_pairs import References, check_aligned
from regard.evaluation.translation import corpus_scores, resolve_tokenizer

GROUP_LIMITS = (5, 10, 15, 20, 25, 30, 40, 50, 75, 100)  # the longest source of each group but the last


@dataclass(frozen=True, kw_only=True)
class LengthScore:
    """The BLEU of the sentences whose source has `shortest` to `longest` words."""

    shortest: int
    longest: int | None  # None: no limit
    sentences: int
    bleu: float

    @property
    def words(self) -> str:
        """The range of lengths as text."""
        return f"{self.shortest} and more" if self.longest is None else f"{self.shortest} to {self.longest}"


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    *,
    tokenize: str = "auto",
    lowercase: bool = False,
) -> list[LengthScore]:
    """The BLEU of each group of source lengths; groups without a sentence are left out.

    Words of the source are separated by white space. For the other arguments see `corpus_scores`.

    Raises:
        DataError: the counts of lines differ, or there are none.
    """
    check_aligned(hypotheses, references)
    check_aligned(sources, [hypotheses], "the source")
    # from all references, so that all groups have the same tokeniser
    tokenize = resolve_tokenizer(tokenize, references)
    groups: dict[int, list[int]] = {}
    for line, source in enumerate(sources):
        groups.setdefault(bisect_left(GROUP_LIMITS, len(source.split())), []).append(line)
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
                shortest=GROUP_LIMITS[group - 1] + 1 if group else 0,
                longest=GROUP_LIMITS[group] if group < len(GROUP_LIMITS) else None,
                sentences=len(lines),
                bleu=score.value,
            )
        )
    return found
