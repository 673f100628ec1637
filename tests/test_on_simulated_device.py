"""The tests with a device pass on a simulated one, which refuses mixed devices and counts waits.

They run in a process of their own: PyTorch counts the devices of a process once.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_process import run_python

ROOT = Path(__file__).parents[1]
QUICK = [
    "tests/training/test_on_device.py",
    "tests/decoding/test_on_device.py",
    "tests/fast/test_causal_attention.py",
]
LAWS = ["tests/laws"]
# its subject is the device "meta", to which a wrapper cannot be moved
NOT_HERE = "not test_a_model_runs_on_the_device_it_is_on"


# nightly: some seconds each, of code that knows no device
LATER = f"{NOT_HERE} and not stopped_and_resumed and not moves_between_devices"


@pytest.mark.parametrize(
    ("marked", "named", "files"),
    [
        ("device and not nightly", LATER, QUICK),
        pytest.param("device", NOT_HERE, QUICK, marks=pytest.mark.nightly),
        pytest.param("device", NOT_HERE, LAWS, marks=pytest.mark.nightly),
    ],
    ids=["quick", "whole", "laws"],
)
def test_tests_with_a_device(marked, named, files):
    if os.environ.get("REGARD_DEVICE", "cpu") != "cpu":
        pytest.skip("the device is chosen already")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-q",
        "-m",
        marked,
        "-k",
        named,
        *files,
    ]
    environment = {**os.environ, "REGARD_DEVICE": "simulated", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-4000:]


SCRIPT = """
import torch
from tests.simulated_device import SimulatedDevice

with SimulatedDevice() as here:
    x = torch.ones(2, 3, device=here.device)
    assert x.device.type == "simulated" and not here.waits
    try:
        x + torch.ones(2, 3)
    except RuntimeError as error:
        assert "two devices" in str(error)
    else:
        raise SystemExit("mixed devices were not refused")
    for wait in (
        lambda: float(x.sum()),
        lambda: x[x > 0],
        lambda: x.cpu(),
        lambda: x.tolist(),
        lambda: x.nonzero(),
        lambda: torch.ones(3).to(here.device),
        lambda: torch.tensor([1], device=here.device),
    ):
        here.waits.clear()
        wait()
        assert here.waits, wait
    here.waits.clear()
    torch.ones(3).to(here.device, non_blocking=True)
    x[:, torch.zeros(1, dtype=torch.int64).to(here.device, non_blocking=True)].sum()
    assert not here.waits, here.waits
"""


def test_it_refuses_mixed_devices_and_counts_what_waits():
    done = run_python(["-c", SCRIPT], ROOT)
    assert done.returncode == 0, done.stderr
