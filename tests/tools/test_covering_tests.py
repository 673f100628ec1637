"""What is known of a file of tests is measured again where the program or the tests differ."""

import json
from pathlib import Path

import pytest

from tests.long.covering_tests import IMPORT, covering_tests, imported, keys_of, place
from tests.long.forked_tests import ForkedTests

pytestmark = pytest.mark.nightly  # as `make mutants` itself is

ROOT = Path(__file__).parents[2]
TESTS = ("tests/part",)
PACKAGE = "regard"


def written(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def test_a_record_depends_on_the_program_the_file_and_what_tests_share(tmp_path):
    source = tmp_path / "copy"
    first, second = "tests/part/test_one.py", "tests/part/test_two.py"
    written(
        tmp_path,
        {
            "copy/regard/a.py": "1",
            "tests/conftest.py": "",
            "tests/other/test_base.py": "",
            "tests/long/mutants.toml": "",
            first: "from tests.other.test_base import it",
            second: "",
        },
    )

    def changed(name):
        before = dict(keys_of(TESTS, tmp_path, source))
        (tmp_path / name).write_text("changed", "utf-8")
        after = dict(keys_of(TESTS, tmp_path, source))
        assert set(before) == set(after) == {first, second}
        return {file for file in after if after[file] != before[file]}

    assert changed("tests/long/mutants.toml") == set()
    assert changed(second) == {second}
    assert changed("tests/other/test_base.py") == {first}
    assert changed("tests/conftest.py") == {first, second}
    assert changed("copy/regard/a.py") == {first, second}


def test_kept_records_are_read_without_a_run(tmp_path):
    source, cache = tmp_path / "copy", tmp_path / "kept"
    file = "tests/part/test_one.py"
    quick, slow, distant = f"{file}::test_quick", f"{file}::test_slow", "tests/part/test_a.py::test_distant"
    written(tmp_path, {file: "", "tests/part/test_a.py": f"from {PACKAGE}.part import other, two\n"})
    records = {
        file: {
            slow: {"seconds": 2.0, "lines": {"part/one.py": [3, 4]}},
            quick: {"seconds": 0.1, "lines": {"part/one.py": [3]}},
            IMPORT: {"seconds": 0.0, "lines": {"part/one.py": [1, 7]}},
        },
        "tests/part/test_a.py": {
            IMPORT: {"seconds": 0.0, "lines": {}},
            distant: {"seconds": 0.0, "lines": {"part/one.py": [3], "part/a.py": [1]}},
        },
    }
    for name, key in keys_of(TESTS, tmp_path, source):
        written(cache, {place(cache, name).name: json.dumps({"key": key, "record": records[name]})})
    known = covering_tests(TESTS, tmp_path, source, cache, package="part", runners=[])
    assert known.of("part/one.py", range(3, 5)) == (quick, slow, distant)
    assert known.of("part/one.py", [4]) == (slow,)
    assert known.of("part/one.py", [1]) == (quick, slow, distant)  # run on import: all of the file
    assert known.of("part/one.py", []) == (quick, slow, distant)
    assert known.of("part/none.py", [1]) == ()
    assert known.runs_on_import("part/one.py", range(5, 8))
    assert not known.runs_on_import("part/one.py", [3, 4])
    assert not known.runs_on_import("part/none.py", [1])
    assert known.of("part/other.py", [1]) == (distant,), "it imports the file, and runs no line of it"


def test_files_that_are_measured_together_have_a_record_each(tmp_path, monkeypatch):
    pytest.importorskip("pytest_cov")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    source, cache = tmp_path / "copy", tmp_path / "kept"
    program = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
    test = "from regard.part.numbers import {0}\n\n\ndef test_{0}():\n    assert {0}() > 0\n"
    written(tmp_path, {"copy/regard/__init__.py": "", "copy/regard/part/__init__.py": ""})
    written(tmp_path, {"copy/regard/part/numbers.py": program})
    written(tmp_path, {f"checks/test_{each}.py": test.format(each) for each in ("one", "two")})
    with ForkedTests(tmp_path) as runner:
        known = covering_tests(["checks"], tmp_path, source, cache, package="part", runners=[runner])
    assert sorted(path.name for path in cache.iterdir()) == [
        "checks.test_one.py.json",
        "checks.test_two.py.json",
    ]
    assert known.of("part/numbers.py", [2]) == ("checks/test_one.py::test_one",)
    assert known.of("part/numbers.py", [6]) == ("checks/test_two.py::test_two",)
    assert known.runs_on_import("part/numbers.py", [1])


def test_the_files_that_tests_import_are_known_however_they_are_written():
    lines = ("import P.a.b", "import torch", "from P.c import d, e", "def f():", "    from P.g import h")
    text = "\n".join(lines).replace("P", PACKAGE)
    assert imported(text) >= {"a/b.py", "c/d.py", "c/e.py", "g.py"}
    assert not any("torch" in each for each in imported(text))
