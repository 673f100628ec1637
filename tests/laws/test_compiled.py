"""torch.compile and torch.export change no number of any model.

They run in a process of their own, because they cannot see through the checks of types that tests run under.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPECIMENS = [  # of test_family.py: one of each kind of model
    "encoder-decoder",
    "decoder-only",
    "classifier",
    "additive attention",
    "neighbourhoods",
    "nodes of a graph",
    "frames",
    "images",
]


@pytest.fixture(scope="module")
def differences():
    script = Path(__file__).with_name("compiled.py")
    run = subprocess.run([sys.executable, script, *SPECIMENS], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("specimen", SPECIMENS)
@pytest.mark.parametrize("what", ["compiled", "gradients", "exported"])
def test_numbers_stay_the_same(differences, specimen, what):
    assert differences[specimen][what] < 1e-6
