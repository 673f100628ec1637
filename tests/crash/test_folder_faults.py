"""Nothing is lost if a save is interrupted at any call to the disk."""

import os
import re
import signal
import tempfile
import time
from pathlib import Path

import pytest

from tests.warm_process import run_python, start_python

HERE = Path(__file__).parent
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}

FILLED = """
import resource, signal, sys, torch
from regard.errors import RunError
from regard.weights.checkpoint import RunFolder
run = RunFolder(sys.argv[1])
run.save(1, {"model.safetensors": {"w": torch.zeros(10)}})
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
for files in ({"model.safetensors": {"w": torch.zeros(100_000)}}, {"config.json": bytes(200_000)}):
    try:
        run.save(2, files)
    except RunError as error:
        print(error.message)
assert [checkpoint.step for checkpoint in run.checkpoints()] == [1]
"""

SAVES_FOR_EVER = """
import itertools, sys, torch
from regard.weights.checkpoint import RunFolder
with RunFolder(sys.argv[1]).lock() as run:
    found = run.latest()
    print(found.step if found else 0, run.broken, flush=True)
    for step in itertools.count(found.step + 1 if found else 1):
        files = {"model.safetensors": {"w": torch.full((5000,), float(step))}, "state.json": b"{}"}
        run.append_metrics({"step": step})
        run.write_best(files, step=step, is_average=False)
        run.save(step, files)
        run.prune(2)
"""


@pytest.fixture
def memory():
    """A folder on a RAM disk if there is one, which is faster and does not wear the disk."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place) as folder:
        yield folder


NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize(
    ("fault", "calls"),
    [
        pytest.param("kill", 100, marks=NIGHTLY),
        ("torn", 15),
        ("ENOSPC", 60),
        pytest.param("EIO", 100, marks=NIGHTLY),
    ],
)
def test_a_saving_may_die_or_fail_at_any_call_and_nothing_is_lost(memory, fault, calls):
    done = run_python([HERE / "faults.py", memory, fault], env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= calls


def test_a_disk_that_is_full_is_reported_and_the_previous_checkpoint_stays(tmp_path):
    """A real limit of the kernel, so that the safetensors library raises its own errors."""
    done = run_python(["-c", FILLED, tmp_path], env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    caught = done.stdout.splitlines()
    assert len(caught) == 2
    assert all(re.fullmatch(r"cannot save .*step-00000002: File too large", line) for line in caught)


def test_a_run_killed_at_random_moments_always_resumes_from_an_intact_checkpoint(tmp_path):
    last = 0
    for round_number in range(3):
        process = start_python(["-c", SAVES_FOR_EVER, tmp_path], env=ONE_THREAD)
        step, broken = process.stdout.readline().split(maxsplit=1)
        time.sleep(0.3 + 0.0137 * round_number)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        assert broken.strip() == b"[]"
        assert int(step) >= last
        last = int(step)
    assert last > 0
