"""The short form of `make jobs-check`: killed processes, a failing store, a full disk, memory."""

import importlib.util
import os
from pathlib import Path

import pytest

from tests.long import object_store
from tests.long.jobs_check import PARTS
from tests.warm_process import run_python

SCRIPT = Path(__file__).parent.parent / "long" / "jobs_check.py"
RAY = "" if importlib.util.find_spec("ray") else "ray"
LACKING = {  # what a part needs and this machine has not, which a process of the part would say later
    **dict.fromkeys(("on_ray", "by_client", "speed"), RAY),
    **dict.fromkeys(("killed_on_s3", "failing_store"), object_store.missing()),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_job_survives(part):
    if lacking := LACKING.get(part):
        pytest.skip(f"{lacking} is not installed")
    done = run_python([SCRIPT, "--quick", "--only", part], env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    figures = done.stdout.splitlines()[-1]
    if "skipped: " in figures:
        pytest.skip(figures.partition("skipped: ")[2])
    assert figures.startswith(f"jobs-check: {part}: ")
