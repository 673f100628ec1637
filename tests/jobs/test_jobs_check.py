"""The short form of `make jobs-check`: killed processes, a failing store, a full disk, memory."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.long.jobs_check import PARTS

SCRIPT = Path(__file__).parent.parent / "long" / "jobs_check.py"


@pytest.mark.parametrize("part", PARTS)
def test_a_job_survives(part):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--quick", "--only", part],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    figures = done.stdout.splitlines()[-1]
    if "skipped: " in figures:
        pytest.skip(figures.partition("skipped: ")[2])
    assert figures.startswith(f"jobs-check: {part}: ")
