"""Which tests run a line of the program, and how long each takes: one run of all of them under coverage."""

import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

PROCESSES = 2
Tests = tuple[str, ...]


@dataclass(frozen=True)
class CoveringTests:
    """The tests by what they run; `lines` is file below src/regard -> line -> their names."""

    lines: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]

    def of(self, file: str, lines: Iterable[int]) -> Tests:
        """Names of the tests that run one of these lines; of a line that is run on import, of the file.

        The quickest first, those of the file's own tests before all others.
        """
        known = self.lines.get(file, {})
        found = set[str]().union(*(known.get(line, ()) for line in lines))
        found = found or set[str]().union(*known.values())
        own = f"test_{Path(file).stem}.py"
        return tuple(sorted(found, key=lambda name: (own not in name, self.seconds.get(name, 0.0), name)))


def covering_tests(tests: Sequence[str], root: Path, source: Path, folder: Path) -> CoveringTests:
    """Run `tests` of the program at `source`; stops the program where one fails."""
    data, times = folder / "coverage", folder / "times.xml"
    options = ["--cov=regard", "--cov-context=test", "--cov-report=", f"--junitxml={times}"]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-n",
            str(PROCESSES),
            "-p",
            "no:cacheprovider",
            *options,
            *tests,
        ],
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(source), "COVERAGE_FILE": str(data), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], file=sys.stderr)
        sys.exit("error: these tests fail without a mutant\nhint: make them pass first")
    return CoveringTests(lines_of(data, source), seconds_of(times))


def lines_of(data: Path, source: Path) -> dict[str, dict[int, set[str]]]:
    from coverage import CoverageData  # `make mutants` installs it

    measured = CoverageData(str(data))
    measured.read()
    return {
        Path(file).relative_to(source / "regard").as_posix(): {
            line: {context.rpartition("|")[0] for context in contexts if context}
            for line, contexts in measured.contexts_by_lineno(file).items()
        }
        for file in measured.measured_files()
    }


def seconds_of(times: Path) -> dict[str, float]:
    """Of each test by its name, as tests/decoding/test_rows.py::test_it[case]."""
    cases = ElementTree.parse(times).iter("testcase")
    return {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": float(case.get("time", 0))
        for case in cases
    }
