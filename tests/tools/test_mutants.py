"""The list of mutants that do the same as the program names mutants of the program as it is."""

import pytest

from tests.long.mutants import PACKAGES, cases, read_explained, without_mutant

pytestmark = pytest.mark.nightly  # as `make mutants` itself is


def test_each_mutant_with_a_reason_is_one():
    found = {package: list(cases(package, None)) for package in PACKAGES}
    assert without_mutant(found, read_explained()) == []
    gone = "training/best.py: better: 7 -> 8"
    assert without_mutant(found, [gone]) == [gone]
    assert without_mutant({"weights": found["weights"]}, [gone]) == [], "of another package"
