"""A system that takes part: how it is installed, trained within a budget, and how it translates."""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.unfit import Unfit
from benchmarks.systems.budget import Budget, one_thread
from benchmarks.systems.corpora import Corpus

BEAM = 5
VOCABULARY = 8000  # subwords of both languages together
PROBES = 2, 8  # updates of the two short runs whose difference gives the cost of an update
MARGIN = 0.97  # of the updates that the budget is estimated to allow


@dataclass(frozen=True, kw_only=True)
class Job:
    """One training: of which corpus, with which budget and seed, and where its files go."""

    corpus: Corpus
    minutes: float
    seed: int
    folder: Path

    @property
    def log(self) -> Path:
        return self.folder / "log.txt"

    @property
    def output(self) -> Path:
        return self.folder / "translations.txt"


@dataclass(frozen=True, kw_only=True)
class TrainingReport:
    """A system's report of its training: number of updates, and the settings that follow from the budget."""

    updates: int
    settings: str


class System(ABC):
    """`python` is the interpreter of the environment that the system is installed in."""

    name: str
    about: str  # its configuration and the source of it
    packages: tuple[str, ...]  # whose versions are reported, the system itself first

    def __init__(self, python: Path) -> None:
        self.python = python

    @abstractmethod
    def train(self, job: Job, budget: Budget) -> TrainingReport:
        """Tokenise, make the vocabulary and train, all of it within `budget`.

        Raises:
            Unfit: a step failed, or the budget ended before there was a model.
        """

    @abstractmethod
    def translate(self, job: Job) -> None:
        """Translate the test set into `job.output`; this time is not counted."""

    def check(self) -> dict[str, str]:
        """The versions of the system's packages.

        Raises:
            Unfit: it is not installed, or cannot be imported.
        """
        if not self.python.exists():
            raise Unfit("not installed (make bench-quality-install)")
        code = "import importlib.metadata as m, sys; import {}; print([m.version(p) for p in sys.argv[1:]])"
        module = self.packages[0].replace("-", "_")
        done = subprocess.run(
            [self.python, "-P", "-c", code.format(module), *self.packages],
            capture_output=True,
            text=True,
            env=one_thread(),
        )
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise Unfit(f"does not import: {lines[-1][:200]}")
        numbers = done.stdout.strip().splitlines()[-1].strip("[]").replace("'", "").split(", ")
        return dict(zip(self.packages, numbers, strict=True))

    def script(self, name: str) -> list[str | Path]:
        """A script of this folder in the system's interpreter."""
        return [self.python, "-P", Path(__file__).with_name(name)]


def affordable(measured: Callable[[int], float], seconds: float, probes: tuple[int, int] = PROBES) -> int:
    """The updates that a training of so many seconds can make, from two short runs of `measured`.

    `measured(updates)` trains so many updates and gives the seconds of processor time of the whole
    command; what does not depend on the number of updates cancels out.
    """
    few, many = probes
    first, second = measured(few), measured(many)
    update = max((second - first) / (many - few), 1e-3)
    start = max(first - few * update, 0.0)
    return max(1, int(MARGIN * (seconds - start) / update))
