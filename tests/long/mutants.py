"""`make mutants`: changes the program in small ways and counts which of them no test sees.

    python -m tests.long.mutants [PACKAGE ...] [--sample N] [--seed S] [--workers W] [--file NAME]

Each mutant is one change (`mutation.py`) in a file of weights, training, decoding or serving. It is killed
if a test that runs its line fails or does not end; which do, a run under coverage says at first. Where the
change is in a function, a fork of a process that has loaded program and tests exchanges its code; if all
tests pass there, or the one that fails there also does so without the change, the changed program is loaded
again. Survivors are printed with file and line. Those that `mutants.toml` explains (the changed program does
the same) survive without a run of all tests of their line, and do not count. Exit code 1 where more than 3 %
survive. All mutants take a night; `--sample` draws some from every package.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from benchmarks.common.checks import Record
from tests.long.covering_tests import CoveringTests, covering_tests
from tests.long.forked_tests import ForkedTests
from tests.long.mutation import Mutant, mutants

ROOT = Path(__file__).parents[2]
EXPLAINED = Path(__file__).with_name("mutants.toml")
CACHE = ROOT / "build/mutants"  # what tests run, between two calls
PACKAGES = {  # package -> what tests it
    "weights": ("tests/weights", "tests/old_runs", "tests/crash"),
    "training": ("tests/training",),
    "decoding": ("tests/decoding",),
    "serving": ("tests/serving", "tests/page"),
}
MOST = 0.03  # share that may survive


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
    found = {package: list(cases(package, options.file)) for package in options.package or PACKAGES}
    if options.file is None:
        for name in without_mutant(found, read_explained()):
            print(f"mutants.toml: no mutant is called {name!r}")
    drawn = [case for each in found.values() for case in sampled(each, options.sample, options.seed)]
    alive = survivors(drawn, options.workers)
    record = Record("mutants", full=options.file is None)
    for package, all_cases in found.items():
        figures = counted(package, drawn, alive) | {"mutants": len(all_cases)}
        record(f"{package}, seed {options.seed}", figures)
    return report(drawn, alive)


def cases(package: str, file: str | None) -> Iterator[Case]:
    for path in sorted((ROOT / "src/regard" / package).rglob("*.py")):
        name = path.relative_to(ROOT / "src/regard").as_posix()
        if file in (None, name):
            for mutant in mutants(path.read_text("utf-8")):
                yield Case(package=package, file=name, mutant=mutant)


def without_mutant(found: Mapping[str, Sequence[Case]], explained: Iterable[str]) -> list[str]:
    """The names of these packages in `mutants.toml` that are of no mutant: the program has changed."""
    names = {case.name for each in found.values() for case in each}
    return [name for name in explained if name.partition("/")[0] in found and name not in names]


def sampled(found: list[Case], count: int, seed: int) -> list[Case]:
    return random.Random(seed).sample(found, count) if 0 < count < len(found) else found


def survivors(drawn: Sequence[Case], workers: int) -> list[Case]:
    """Those that no test sees."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places: SimpleQueue[Place] = SimpleQueue()
        packages = [*dict.fromkeys(case.package for case in drawn)]
        sources = [folder / str(number) for number in range(workers)]
        for source in sources:
            shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
            shutil.copytree(ROOT / "recipes", source / "regard" / "recipes")  # as in an installation
        runners = [stack.enter_context(ForkedTests(ROOT)) for _ in sources]
        known = {
            package: covering_tests(
                PACKAGES[package], ROOT, folder / "0", CACHE, package=package, runners=runners
            )
            for package in packages
        }
        tests = [each for package in packages for each in PACKAGES[package]]
        for source, runner in zip(sources, runners, strict=True):
            places.put(Place(source, runner, stack.enter_context(ForkedTests(ROOT, source, tests))))

        explained = read_explained()

        def lives(case: Case) -> bool:
            if case.name in explained:
                print(f"explained         {case.file}:{case.mutant.line}: {case.mutant.change}", flush=True)
                return True
            place = places.get()
            try:
                return survives(case, place, known[case.package])
            finally:
                places.put(place)

        with ThreadPoolExecutor(workers) as pool:
            return [case for case, alive in zip(drawn, pool.map(lives, drawn), strict=True) if alive]


@dataclass(frozen=True)
class Place:
    """A copy of the program, and what runs tests with it: without anything loaded, and with everything."""

    source: Path
    runner: ForkedTests
    loaded: ForkedTests
    passing: dict[str, bool] = field(default_factory=dict[str, bool])  # tests, without a change

    def passes(self, test: str) -> bool:
        """True if this test passes in the loaded program without a change."""
        if test not in self.passing:
            self.passing[test] = self.loaded.run({test: 10.0}, self.source)[0] == 0
        return self.passing[test]


def survives(case: Case, place: Place, known: CoveringTests) -> bool:
    names = known.of(case.file, () if case.mutant.on_import else case.mutant.lines)
    tests, began = {test: known.seconds.get(test, 1.0) for test in names}, time.perf_counter()
    in_place = bool(tests) and fails_in_place(case, place, known, tests)
    alive = not in_place and not (tests and fails_after_import(case, place, tests))
    mark = "survives" if alive else "killed in place" if in_place else "killed"
    change = f"{case.file}:{case.mutant.line}: {case.mutant.change}"
    print(f"{mark:15} {time.perf_counter() - began:5.1f} s  {change}", flush=True)
    return alive


def fails_in_place(case: Case, place: Place, known: CoveringTests, tests: Mapping[str, float]) -> bool:
    """True if a test fails in the loaded program because of the change."""
    file = place.source / "regard" / case.file
    function = case.mutant.function(str(file))
    if function is None or known.runs_on_import(case.file, case.mutant.lines):
        return False
    with changed(file, case.mutant.text):  # also for programs that tests start
        code, last = place.loaded.run(tests, place.source, function)
    return bool(last) and (code == 1 or code < 0) and place.passes(last)


def fails_after_import(case: Case, place: Place, tests: Mapping[str, float]) -> bool:
    """True if a test fails, or importing it, where the changed program is loaded."""
    with changed(place.source / "regard" / case.file, case.mutant.text):
        return place.runner.run(tests, place.source)[0] != 0


def read_explained() -> dict[str, str]:
    """Mutants that do the same as the program, by name, with the reason."""
    return tomllib.loads(EXPLAINED.read_text("utf-8"))


@contextmanager
def changed(file: Path, text: str) -> Iterator[None]:
    """The file has another text."""
    usual = file.read_text("utf-8")
    write(file, text)
    try:
        yield
    finally:
        write(file, usual)


def write(file: Path, text: str) -> None:
    """A file of the program, without what Python compiled of it: it looks at whole seconds only."""
    file.write_text(text, "utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def counted(package: str, drawn: Sequence[Case], alive: Sequence[Case]) -> dict[str, Any]:
    """How many mutants of a package were drawn, killed, survived, and survived with a reason; and names."""
    explained = read_explained()
    survived = [case.name for case in alive if case.package == package]
    sample = sum(case.package == package for case in drawn)
    with_reason = sum(name in explained for name in survived)
    return {
        "sample": sample,
        "killed": sample - len(survived),
        "survived": len(survived),
        "with_reason": with_reason,
        "survivors": survived,
    }


def report(drawn: Sequence[Case], alive: Sequence[Case]) -> int:
    """Print the figures; the exit code."""
    explained = read_explained()
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
