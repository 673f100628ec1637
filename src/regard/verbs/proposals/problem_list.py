"""The list of the pairs of a corpus that look like mistakes, in a file; `--clean` leaves them out."""

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from regard.counted import counted
from regard.data.corpus import Pair
from regard.data.duplicates import pair_digest, text_digest
from regard.verbs.proposals.corpus_survey import Survey
from regard.verbs.proposals.line_checks import LineProblem, Occurrences

PROBLEMS = "problems.tsv"
PAIRS_AT_ONCE = 1000  # that are checked together


class ProblemList:
    """Checks each pair of a corpus, and lists those with problems in `folder`.

    Attributes:
        found: the pairs with each problem; a pair may have several.
        left_out: the number of pairs that were left out, by their first problem.
        redundant: the number of pairs without problems that were left out: exact repetitions, and sources of
            validation or test data.
    """

    def __init__(self, survey: Survey, folder: Path, *, leaves_out: bool) -> None:
        self._checks, self._path, self._leaves_out = survey.checks, folder / PROBLEMS, leaves_out
        self.found: dict[LineProblem, Occurrences] = {each: Occurrences() for each in self._checks.found}
        self.left_out: Counter[str] = Counter()
        self.redundant: Counter[str] = Counter()
        self._held_out = survey.held_out_sources
        self._repeated = survey.statistics.duplicates.repeated() if leaves_out else frozenset[int]()
        self._seen: set[int] = set()

    def kept(self, pairs: Iterable[Pair]) -> Iterator[Pair]:
        """The pairs without those that are left out; writes the list."""
        checked = self._listed(pairs) if self._checks.found else ((pair, None) for pair in pairs)
        for pair, problem in checked:
            if not self._leaves_out:
                yield pair
            elif problem is not None:
                self.left_out[problem] += 1
            elif (reason := self._redundancy(pair)) is not None:
                self.redundant[reason] += 1
            else:
                yield pair

    def _listed(self, pairs: Iterable[Pair]) -> Iterator[tuple[Pair, LineProblem | None]]:
        """Each pair with its first problem; writes the list."""
        rest = iter(pairs)
        with self._path.open("w", encoding="utf-8", newline="\n") as file:
            file.write("line\tproblem\tsource\ttarget\n")
            while some := list(itertools.islice(rest, PAIRS_AT_ONCE)):
                for pair, problems in zip(some, self._checks.problems(some), strict=True):
                    if problems:
                        cells = str(pair.line), ", ".join(problems), pair.source, pair.target
                        file.write("\t".join(map(_cell, cells)) + "\n")
                    for problem, side in problems.items():
                        self.found[problem].add(pair.line, side)
                    yield pair, next(iter(problems), None)

    def _redundancy(self, pair: Pair) -> str | None:
        """Why a pair without problems is left out; None if it is not."""
        if self._held_out and text_digest(pair.source) in self._held_out:
            return "source in validation or test data"
        if self._repeated and (digest := pair_digest(pair)) in self._repeated:
            if digest in self._seen:
                return "repeated pair"
            self._seen.add(digest)
        return None

    def summary(self, data: Path) -> Iterator[str]:
        """A line that says where the list is, and what was left out or can be."""
        counts = {problem: len(each.lines) for problem, each in self.found.items() if each.lines}
        if not counts:
            return
        found = ", ".join(f"{count:,} {problem}" for problem, count in Counter(counts).most_common())
        if self._leaves_out:
            what = f"{counted(self.left_out.total(), 'pair')} left out"
        else:
            what = "--clean leaves these pairs out"
        yield f"{what}: {data / PROBLEMS} has each with its line number ({found})"


def _cell(text: str) -> str:
    """A text without tabs and line ends."""
    return " ".join(text.split("\t")).replace("\r", " ").replace("\n", " ")
