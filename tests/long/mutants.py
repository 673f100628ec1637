"""`make mutants`: changes the program in small ways and counts which of them no test sees.

    python -m tests.long.mutants [PACKAGE ...] [--sample N] [--seed S] [--workers W] [--file NAME]

Each mutant is one change (`mutation.py`) in a file of weights, training, decoding or serving. It is killed
if a test of the file, of its package or of the laws fails or does not end. Survivors are printed with file
and line; those that `mutants.toml` explains (the changed program does the same) are not counted. Exit code 1
where more than 3 % survive. All mutants take a night; `--sample` draws some from every package.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.long.mutation import Mutant, mutants

ROOT = Path(__file__).parents[2]
EXPLAINED = Path(__file__).with_name("mutants.toml")
PACKAGES = {  # package -> what tests it, beside the file's own tests
    "weights": ("tests/weights", "tests/old_runs", "tests/crash"),
    "training": ("tests/training", "tests/laws"),
    "decoding": ("tests/decoding", "tests/laws"),
    "serving": ("tests/serving", "tests/page"),
}
MOST = 0.03  # share that may survive
PATIENCE = 300  # seconds; a mutant that loops for ever is killed


@dataclass(frozen=True, kw_only=True)
class Case:
    """A mutant of a file."""

    package: str
    file: str  # below src/regard
    mutant: Mutant

    @property
    def name(self) -> str:
        """What `mutants.toml` calls it: without the line, which moves."""
        return f"{self.file}: {self.mutant.change}"

    @property
    def tests(self) -> tuple[tuple[str, ...], ...]:
        """What is run, one after the other, until something fails: the file's own tests first."""
        own = f"tests/{self.package}/test_{Path(self.file).stem}.py"
        first = ((own,),) if (ROOT / own).exists() else ()
        return (*first, tuple(each for each in PACKAGES[self.package] if (ROOT / each).exists()))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("package", nargs="*", choices=[*PACKAGES, []], help="all without")
    parser.add_argument("--sample", type=int, default=0, help="mutants of each package; 0 is all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--file", help="only of this file, as decoding/sampling.py")
    options = parser.parse_args()
    drawn = [
        case
        for package in options.package or PACKAGES
        for case in sampled(list(cases(package, options.file)), options.sample, options.seed)
    ]
    return told(drawn, survivors(drawn, options.workers))


def cases(package: str, file: str | None) -> Iterator[Case]:
    for path in sorted((ROOT / "src/regard" / package).rglob("*.py")):
        name = path.relative_to(ROOT / "src/regard").as_posix()
        if file in (None, name):
            for mutant in mutants(path.read_text("utf-8")):
                yield Case(package=package, file=name, mutant=mutant)


def sampled(found: list[Case], count: int, seed: int) -> list[Case]:
    return random.Random(seed).sample(found, count) if 0 < count < len(found) else found


def survivors(drawn: Sequence[Case], workers: int) -> list[Case]:
    """Those that no test sees."""
    with tempfile.TemporaryDirectory() as folder:
        places: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            place = Path(folder) / str(number)
            shutil.copytree(ROOT / "src", place, ignore=shutil.ignore_patterns("__pycache__"))
            places.put(place)
        refuse_red(drawn, Path(folder) / "0")

        def lives(case: Case) -> bool:
            place = places.get()
            try:
                return survives(case, place)
            finally:
                places.put(place)

        with ThreadPoolExecutor(workers) as pool:
            return [case for case, alive in zip(drawn, pool.map(lives, drawn), strict=True) if alive]


def survives(case: Case, place: Path) -> bool:
    file, began = place / "regard" / case.file, time.perf_counter()
    text = file.read_text("utf-8")
    file.write_text(case.mutant.text, "utf-8")
    try:
        alive = all(passes(tests, place) for tests in case.tests)
    finally:
        file.write_text(text, "utf-8")
    mark = "survives" if alive else "killed"
    line = (
        f"{mark:9} {time.perf_counter() - began:4.0f} s  {case.file}:{case.mutant.line}: {case.mutant.change}"
    )
    print(line, flush=True)
    return alive


def passes(tests: Sequence[str], place: Path) -> bool:
    """True if these tests pass with the program at `place`."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = os.environ | {
        "PYTHONPATH": str(place),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
    }
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def refuse_red(drawn: Sequence[Case], place: Path) -> None:
    """Stop where tests fail without any change: every mutant would seem to be killed."""
    for tests in {tests for case in drawn for tests in case.tests}:
        if not passes(tests, place):
            sys.exit(f"error: {' '.join(tests)} fails without a mutant\nhint: make it pass first")


def told(drawn: Sequence[Case], alive: Sequence[Case]) -> int:
    """Print the figures; the exit code."""
    explained = tomllib.loads(EXPLAINED.read_text("utf-8"))
    unseen = [case for case in alive if case.name not in explained]
    for case in alive:
        why = explained.get(case.name)
        print(f"{case.file}:{case.mutant.line}: {case.mutant.change}" + (f"  # {why}" if why else ""))
    share = len(unseen) / max(1, len(drawn))
    print(
        f"{len(drawn):,} mutants, {len(alive)} survived, {len(alive) - len(unseen)} of them explained:"
        f" {share:.1%} (at most {MOST:.0%})"
    )
    return int(share > MOST)


if __name__ == "__main__":
    sys.exit(main())
