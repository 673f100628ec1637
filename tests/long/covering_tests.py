"""Which tests run a line of the program, and how long each takes: from a run of them under coverage.

What a file of tests runs is kept in a folder as soon as it is known, and measured again where the program,
that file, or what it shares with other tests is different. Files are measured together, as a process takes
longer to import the program than to run the tests of most of them.
"""

import ast
import hashlib
import json
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from xml.etree import ElementTree

from tests.long.forked_tests import ForkedTests

Tests = tuple[str, ...]
IMPORT = ""  # in place of a test: what runs while tests are collected
TOGETHER = 20  # files of tests that one process measures
Record = dict[str, dict[str, Any]]  # test -> "seconds"; "lines": file below src/regard -> their numbers


@dataclass(frozen=True)
class CoveringTests:
    """The tests by what they run and import.

    `lines`: file below src/regard -> line -> the tests that run it. `imports`: file -> the tests that import
    it.
    """

    lines: dict[str, dict[int, set[str]]]
    imports: dict[str, set[str]]
    seconds: dict[str, float]
    on_import: dict[str, set[int]]  # file -> lines that run while tests are collected

    def runs_on_import(self, file: str, lines: Iterable[int]) -> bool:
        """True if the import of some test runs one of these lines."""
        return not self.on_import.get(file, set[int]()).isdisjoint(lines)

    def of(self, file: str, lines: Iterable[int]) -> Tests:
        """Names of the tests that run one of these lines: the file's own first, and the quickest.

        Without lines, or where none runs them, those that run any line of the file or import it (as a test of
        defaults may do alone): so for what is run on import, whichever test imports it first.
        """
        known = self.lines.get(file, {})
        found = set[str]().union(*(known.get(line, ()) for line in lines))
        found = found or self.imports.get(file, set[str]()).union(*known.values())
        own = f"test_{Path(file).stem}.py"
        return tuple(sorted(found, key=lambda name: (own not in name, self.seconds.get(name, 0.0), name)))


def covering_tests(
    tests: Sequence[str],
    root: Path,
    source: Path,
    cache: Path,
    *,
    package: str,
    runners: Sequence[ForkedTests],
) -> CoveringTests:
    """What the files of `tests` below `root` run of a package of the program at `source`.

    A record of each file is in `cache`. Stops the program where a test fails.
    """
    keys = dict(keys_of(tests, root, source))
    records = {file: kept(cache, file, key) for file, key in keys.items()}
    missing = [file for file, record in records.items() if record is None]
    free: SimpleQueue[ForkedTests] = SimpleQueue()
    for runner in runners:
        free.put(runner)

    def measured(files: Sequence[str]) -> dict[str, Record]:
        runner, began = free.get(), time.perf_counter()
        try:
            found = measure(files, source, source / "regard" / package, runner)
        finally:
            free.put(runner)
        cache.mkdir(parents=True, exist_ok=True)
        for file, record in found.items():
            place(cache, file).write_text(json.dumps({"key": keys[file], "record": record}), "utf-8")
        what = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more files"
        print(f"measured {time.perf_counter() - began:4.0f} s  what {what} run", flush=True)
        return found

    if missing:
        with ThreadPoolExecutor(len(runners)) as pool:
            for found in pool.map(measured, batched(missing, TOGETHER)):
                records |= found
    return joined({file: record for file, record in records.items() if record}, root)


def keys_of(tests: Sequence[str], root: Path, source: Path) -> Iterator[tuple[str, str]]:
    """A digest of what a record depends on, for each file of tests by its name below `root`."""
    shared = hashlib.sha256(b"with IMPORT")  # the form of a record
    for folder, left_out in ((source, r".*\.pyc"), (root / "tests", r".*\.pyc|long/.*|(.*/)?test_\w+\.py")):
        for file in sorted(folder.rglob("*")):
            name = file.relative_to(folder).as_posix()
            if file.is_file() and not re.fullmatch(left_out, name):
                shared.update(f"{name} {file.stat().st_size}\n".encode() + file.read_bytes())
    for file in sorted(file for each in tests for file in (root / each).rglob("test_*.py")):
        others = re.findall(r"from (tests[\w.]*\.test_\w+) import", file.read_text("utf-8"))
        digest = shared.copy()
        for each in (file, *(root / f"{name.replace('.', '/')}.py" for name in others)):
            digest.update(each.read_bytes())
        yield file.relative_to(root).as_posix(), digest.hexdigest()


def place(cache: Path, file: str) -> Path:
    return cache / f"{file.replace('/', '.')}.json"


def kept(cache: Path, file: str, key: str) -> Record | None:
    try:
        found = json.loads(place(cache, file).read_text("utf-8"))
    except (FileNotFoundError, ValueError):  # none, or one of a run that was killed
        return None
    return found["record"] if found["key"] == key else None


def joined(records: Mapping[str, Record], root: Path) -> CoveringTests:
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    imports: dict[str, set[str]] = defaultdict(set)
    seconds: dict[str, float] = {}
    on_import: dict[str, set[int]] = defaultdict(set)
    for tests, record in records.items():
        for file in imported((root / tests).read_text("utf-8")):
            imports[file].update(name for name in record if name != IMPORT)
        for file, numbers in record[IMPORT]["lines"].items():
            on_import[file].update(numbers)
        for name, run in record.items():
            if name == IMPORT:
                continue
            seconds[name] = run["seconds"]
            for file, numbers in run["lines"].items():
                for line in numbers:
                    lines[file][line].add(name)
    all_lines = {file: dict(known) for file, known in lines.items()}
    return CoveringTests(all_lines, dict(imports), seconds, dict(on_import))


def imported(text: str) -> set[str]:
    """The files below src/regard that a file of tests imports, some of which may not exist."""
    found = set[str]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return {
        f"{name.removeprefix('regard.').replace('.', '/')}.py" for name in found if name.startswith("regard.")
    }


def batched(files: Sequence[str], most: int) -> list[Sequence[str]]:
    """The files in groups of at most so many."""
    return [files[first : first + most] for first in range(0, len(files), most)]


def measure(files: Sequence[str], source: Path, measured: Path, runner: ForkedTests) -> dict[str, Record]:
    """Run files of tests under coverage of a folder of the program; the record of each."""
    with tempfile.TemporaryDirectory() as folder:
        data, times, output = (Path(folder, name) for name in ("coverage", "times.xml", "output"))
        config = Path(folder, "config")
        config.write_text(f"[run]\ndata_file = {data}\n", "utf-8")
        options = [f"--cov={measured}", f"--cov-config={config}", "--cov-context=test", "--cov-report="]
        if runner.run_files(files, source, *options, f"--junitxml={times}", output=output):
            print(output.read_text("utf-8")[-4000:], file=sys.stderr)
            sys.exit("error: these tests fail without a mutant\nhint: make them pass first")
        records: dict[str, Record] = {file: {IMPORT: unknown(0.0)} for file in files}
        for test, seconds in seconds_of(times).items():
            records[test.partition("::")[0]][test] = unknown(seconds)
        for name, line, test in lines_of(data, source):
            for file in files if test == IMPORT else [test.partition("::")[0]]:
                records[file][test]["lines"][name].append(line)
        return records


def unknown(seconds: float) -> dict[str, Any]:
    """What is known of a test that has run, without its lines."""
    return {"seconds": seconds, "lines": defaultdict(list)}


def lines_of(data: Path, source: Path) -> Iterator[tuple[str, int, str]]:
    """File below src/regard, line, and a test that runs it, or IMPORT."""
    from coverage import CoverageData  # `make mutants` installs it

    measured = CoverageData(str(data))
    measured.read()
    for file in measured.measured_files():
        name = Path(file).relative_to(source / "regard").as_posix()
        for line, contexts in measured.contexts_by_lineno(file).items():
            for test in {context.rpartition("|")[0] if context else IMPORT for context in contexts}:
                yield name, line, test


def seconds_of(times: Path) -> dict[str, float]:
    """Of each test by its name, as tests/decoding/test_rows.py::test_it[case]."""
    cases = ElementTree.parse(times).iter("testcase")
    return {
        f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}": float(case.get("time", 0))
        for case in cases
    }
