"""The long checks leave their figures in files that docs/figures/ reads."""

import argparse
import json

import pytest

from benchmarks.common import checks
from benchmarks.common.checks import Record, record_of


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(checks, "FOLDER", tmp_path)
    return tmp_path / "checks"


def test_each_part_has_its_figures_date_and_machine(folder):
    record = Record("soak", full=True)
    record("training", {"updates": 3})
    record("serving", {"looks": 5})
    record("training", {"updates": 4})
    found = json.loads((folder / "soak.json").read_text())
    assert {name: found[name]["source"] for name in found} == {"training": "measured", "serving": "measured"}
    assert found["training"]["updates"] == 4
    assert found["serving"]["date"]
    assert "cores" in found["serving"]["machine"]


@pytest.mark.parametrize(
    ("given", "full"),
    [([], True), (["--only", "training"], True), (["--quick"], False), (["--kills", "5"], False)],
)
def test_a_check_that_does_not_run_in_full_leaves_nothing(folder, given, full):
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only")
    record_of("crash", parser, parser.parse_args(given))("training", {"kills": 1})
    assert (folder / "crash.json").exists() == full
