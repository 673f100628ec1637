"""The list of the pairs of a corpus that look like mistakes, in a file; `--clean` leaves them out."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from regard.counted import counted
from regard.data.corpus import Pair
from regard.verbs.proposals.line_checks import LineChecks, LineProblem

PROBLEMS = "problems.tsv"
PAIRS_AT_ONCE = 1000  # that are checked together


class ProblemList:
    """Checks each pair of a corpus, and lists those with problems in `folder`.

    Attributes:
        counts: the number of pairs with each problem; a pair may have several.
        left_out: the number of pairs that were left out, by their first problem.
    """

    def __init__(self, checks: LineChecks, folder: Path, *, leaves_out: bool) -> None:
        self._checks, self._path, self._leaves_out = checks, folder / PROBLEMS, leaves_out
        self.counts: Counter[LineProblem] = Counter()
        self.left_out: Counter[str] = Counter()

    def kept(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs without those that are left out; writes the list."""
        if not self._checks.found:
            yield from pairs
            return
        rest = iter(pairs)
        with self._path.open("w", encoding="utf-8", newline="\n") as file:
            file.write("line\tproblem\tsource\ttarget\n")
            while some := list(itertools.islice(rest, PAIRS_AT_ONCE)):
                for pair, problems in zip(some, self._checks.problems(some), strict=True):
                    if problems:
                        self.counts.update(problems)
                        file.write("\t".join(map(_cell, _row(pair, problems))) + "\n")
                    if problems and self._leaves_out:
                        self.left_out[problems[0]] += 1
                    else:
                        yield pair

    def summary(self, data: Path) -> Iterator[str]:
        """A line that says where the list is, and what was left out or can be."""
        if not self.counts:
            return
        found = ", ".join(f"{count:,} {problem}" for problem, count in self.counts.most_common())
        if self._leaves_out:
            what = f"{counted(self.left_out.total(), 'pair')} left out"
        else:
            what = "--clean leaves these pairs out"
        yield f"{what}: {data / PROBLEMS} has each with its line number ({found})"


def _row(pair: Pair, problems: Iterable[LineProblem]) -> Iterator[str]:
    yield from (str(pair.line), ", ".join(problems), pair.source, pair.target)


def _cell(text: str) -> str:
    """A text without tabs and line ends."""
    return " ".join(text.split("\t")).replace("\r", " ").replace("\n", " ")
