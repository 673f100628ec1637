"""torch.compile and torch.export change no number of any model.

They run in a process of their own, because they cannot see through the checks of types that tests run under.
"""

import json
import os
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.warm_process import run_python

SPECIMENS = [  # of test_family.py: one of each kind of model
    "encoder-decoder",
    "decoder-only",
    "classifier",
    "metric",
    "additive attention",
    "neighbourhoods",
    "nodes of a graph",
    "frames",
    "images",
    "images and texts",
]
FIRST = ("decoder-only",)  # the others nightly


COMPILER = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")  # as PyTorch chooses
HEADER = Path(sysconfig.get_path("include"), "Python.h")


def measured(*arguments, **environment):
    script = Path(__file__).with_name("compiled.py")
    run = run_python([script, *arguments], env={**os.environ, **environment})
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize(
    "specimen",
    [each if each in FIRST else pytest.param(each, marks=pytest.mark.nightly) for each in SPECIMENS],
)
def test_numbers_stay_the_same(specimen):
    found = measured(specimen)[specimen]
    assert set(found) == {"compiled", "gradients", "exported"}
    assert max(found.values()) < 1e-6, found


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"there is no C++ compiler ({COMPILER})")
@pytest.mark.skipif(not HEADER.is_file(), reason="Python's headers, which built code needs, are not there")
def test_built_code_gives_the_same_numbers_nearly(tmp_path):
    """Inductor fuses and reorders sums, so one small model, to 1e-5."""
    found = measured("--inductor", "decoder-only", TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
    assert found["decoder-only"]["compiled"] < 1e-5
    assert list(tmp_path.rglob("*.cpp")), "it was built and not passed by"
