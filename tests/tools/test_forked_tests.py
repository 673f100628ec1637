"""A process for mutants runs tests in a fork; a test that does not end is a failure, and ends soon."""

import signal
from dataclasses import replace
from pathlib import Path

import pytest

from tests.long import forked_tests
from tests.long.forked_tests import NOT_RUN, ForkedTests, TimeLimit, forked
from tests.long.mutation import mutants

pytestmark = pytest.mark.nightly  # as `make mutants` itself is

ROOT = Path(__file__).parents[2]

TESTS = """
import subprocess
import time

def test_passes():
    pass

def test_fails():
    assert False

def test_takes_half_a_second():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass

def test_loops():
    while True:
        pass

def test_waits():
    subprocess.run(["sleep", "60"])
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The exit code of these tests, each of which usually takes so many seconds."""
    (tmp_path / "test_some.py").write_text(TESTS, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(forked_tests, "CLOCK", 60.0)

    def run(*names, usual=0.0):
        tests = {f"test_some.py::test_{name}": usual for name in names}
        return forked([*tests], str(tmp_path), tests)[0]

    return run


def test_what_pytest_says_is_returned(run):
    assert run("passes") == 0
    assert run("passes", "fails") == 1


def test_the_test_that_failed_or_did_not_end_is_named(tmp_path, monkeypatch, run):
    monkeypatch.setattr(forked_tests, "PROCESSOR", 1.0)
    for name in ("fails", "loops"):
        tests = {f"test_some.py::test_{each}": 0.0 for each in ("passes", name, "waits")}
        assert forked([*tests], str(tmp_path), tests)[1] == f"test_some.py::test_{name}"


def test_a_test_that_loops_is_ended_by_its_processor_time(run, monkeypatch):
    monkeypatch.setattr(forked_tests, "PROCESSOR", 0.3)
    assert run("passes", "loops") == -signal.SIGPROF
    assert run("takes_half_a_second") == -signal.SIGPROF


def test_each_test_has_a_limit_of_its_own_that_grows_with_its_usual_time(monkeypatch):
    timers = {}
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(signal, "setitimer", timers.__setitem__)
    monkeypatch.setattr(forked_tests, "PROCESSOR", 30.0)
    monkeypatch.setattr(forked_tests, "CLOCK", 120.0)
    limit = TimeLimit({"quick": 0.0, "slow": 20.0})
    for name, seconds in (("quick", 0.0), ("slow", 20.0), ("quick", 0.0), ("never measured", 1.0)):
        limit.pytest_runtest_logstart(name)
        more = forked_tests.PATIENCE * seconds
        assert timers == {signal.ITIMER_PROF: 30.0 + more, signal.ITIMER_REAL: 120.0 + more}


def test_a_limit_is_long_enough_for_a_test_that_is_usually_slow(run, monkeypatch):
    monkeypatch.setattr(forked_tests, "PROCESSOR", 0.4)
    assert run("takes_half_a_second", usual=20.0) == 0


def test_a_test_that_waits_is_ended_by_the_clock(run, monkeypatch):
    monkeypatch.setattr(forked_tests, "CLOCK", 1.0)
    assert run("waits") == -signal.SIGALRM


def test_without_limits_a_slow_test_passes_and_options_are_passed(run, tmp_path, monkeypatch):
    monkeypatch.setattr(forked_tests, "PROCESSOR", 0.1)
    options = ["-k", "half_a_second", f"--junitxml={tmp_path / 'times.xml'}"]
    assert forked(["test_some.py"], str(tmp_path), options=options)[0] == 0
    assert 'tests="1"' in (tmp_path / "times.xml").read_text("utf-8")


def test_a_process_that_has_loaded_the_program_runs_tests_with_another_body_of_a_function(
    tmp_path, monkeypatch
):
    """Tests freeze what collecting leaves; who refers to the function by its own name gets the change too."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    program = tmp_path / "source/program.py"
    program.parent.mkdir()
    program.write_text("def twice(x):\n    return x + x\n", "utf-8")
    tests = "from program import twice\n\ndef test_first():\n    pass\n\n"
    tests += "def test_it():\n    assert twice(3) == 6\n"
    (tmp_path / "test_program.py").write_text(tests, "utf-8")
    freeze = "import gc\n\ndef pytest_collection_finish():\n    gc.freeze()\n"
    (tmp_path / "conftest.py").write_text(freeze, "utf-8")
    (mutant,) = mutants(program.read_text("utf-8"))
    change = mutant.function(str(program))
    usual = {f"test_program.py::{name}": 1.0 for name in ("test_first", "test_it")}
    with ForkedTests(tmp_path, program.parent, ["test_program.py"]) as loaded:
        program.write_text(mutant.text, "utf-8")  # it was loaded before
        assert loaded.run(usual, program.parent)[0] == 0
        assert loaded.run(usual, program.parent, change) == (1, "test_program.py::test_it")
        assert loaded.run(usual, program.parent)[0] == 0
        absent = replace(change, name="thrice", text="def thrice(x): pass")
        assert loaded.run(usual, program.parent, absent) == (NOT_RUN, "")
