"""Machines leave and join a run under torchrun: it resumes with those that are there and loses no example."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
import torch

from regard.weights.checkpoint import RunFolder
from tests.distributed.test_torchrun import RECIPE, train

SCRIPT = Path(__file__).with_name("elastic_reader.py")
SHARDED = ["--set", "distributed.strategy=fsdp2"]
STEPS = 150  # five epochs and a part
CHILDREN = "/proc/{0}/task/{0}/children"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc"),
]


class Machine:
    """torchrun as on one machine, with one process of the run; the first machine has torchrun's store."""

    def __init__(self, folder, port, arguments):
        self.notes = (folder / f"notes-{time.time()}").open("w+")  # closed with the machine
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1"]
        meeting = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "elastic"]
        conf = ["--rdzv-conf", "last_call_timeout=5", "--local-addr", "localhost", "--max-restarts", "5"]
        script = [str(SCRIPT), str(folder / "read.jsonl"), str(folder / "hurry"), *arguments]
        self.agent = subprocess.Popen(
            [*torchrun, *meeting, *conf, *script],
            stdout=self.notes,
            stderr=self.notes,
            env={**os.environ, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"},
        )

    def signal(self, number):
        """Sends a signal to torchrun and then to its process, as when both are lost together."""
        children = Path(CHILDREN.format(self.agent.pid)).read_text().split()
        for process in (self.agent.pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def text(self):
        self.notes.seek(0)
        return self.notes.read()


@pytest.fixture
def machines(tmp_path):
    """Starts machines; ends those that are left at the end of the test."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "recipe.toml").write_text(RECIPE)
    sets = ["model.dropout=0.0", f"training.max_steps={STEPS}"]
    more = [part for each in sets for part in ("--set", each)]
    command = train(tmp_path / "recipe.toml", tmp_path / "run", *more, *SHARDED)
    found = []

    def start():
        found.append(Machine(tmp_path, port, command))
        return found[-1]

    yield start
    for machine in found:
        with contextlib.suppress(FileNotFoundError):  # it has ended
            machine.signal(signal.SIGKILL)
        machine.agent.wait()
        machine.notes.close()


def read(folder):
    path = folder / "read.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("]")]


def wait_for(folder, machine, size, more=7, since=0.0):
    """Waits until `size` processes have read so many batches in a start after `since`; when that began."""
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        assert machine.agent.poll() is None, machine.text()
        found = [entry for entry in read(folder) if entry[1] > since and entry[2:4] == [0, size]]
        if len(found) >= more:
            return found[0][0]
        time.sleep(0.05)
    raise AssertionError(f"no {size} processes train:\n{machine.text()}")


def check_each_example_once(folder):
    """The last start that read a batch is the one whose update counts: it is in the checkpoints after it."""
    last = {}
    for _, start, rank, size, place, lines in read(folder):
        known = last.setdefault(tuple(place), {})
        if not known or start > known["start"]:
            known.clear()
            known.update(start=start, size=size, lines={})
        if start == known["start"]:
            known["lines"][rank] = lines
    epochs = max(place[0] for place in last)
    assert epochs >= 3
    for epoch in range(epochs):
        batches = [found for place, found in last.items() if place[0] == epoch]
        assert all(len(found["lines"]) == found["size"] for found in batches)
        lines = Counter(line for found in batches for part in found["lines"].values() for line in part)
        assert lines == Counter(range(1, 101)), epoch


def check_the_run_is_that_of_one_process(folder):
    sets = ["model.dropout=0.0", f"training.max_steps={STEPS}"]
    more = [part for each in sets for part in ("--set", each)]
    alone = train(folder / "recipe.toml", folder / "alone", *more)
    subprocess.run([sys.executable, "-m", "regard", *alone], check=True, capture_output=True)
    found = [RunFolder(folder / name).latest() for name in ("alone", "run")]
    states = [checkpoint.read_json("state.json") for checkpoint in found]
    for key in ("step", "cursor", "target_tokens"):
        assert states[0][key] == states[1][key], key
    weights = [checkpoint.read_tensors("model.safetensors") for checkpoint in found]
    for name, tensor in weights[0].items():
        if name.endswith(("key.bias", "query_key_value.bias")):
            continue  # its gradient is rounding, which Adam makes steps of
        torch.testing.assert_close(weights[1][name], tensor, rtol=0, atol=2e-3, msg=name)


def test_a_machine_joins_is_lost_and_joins_again(machines, tmp_path, capsys):
    first = machines()
    wait_for(tmp_path, first, 1)
    seconds = {}

    began = time.time()
    second = machines()
    seconds["joined"] = wait_for(tmp_path, first, 2, since=began) - began

    began = time.time()
    second.signal(signal.SIGKILL)
    seconds["killed"] = wait_for(tmp_path, first, 1, since=began) - began

    began = time.time()
    third = machines()
    seconds["joined again"] = wait_for(tmp_path, first, 2, since=began) - began

    (tmp_path / "hurry").touch()
    assert first.agent.wait(240) == 0, first.text()
    assert third.agent.wait(60) == 0, third.text()
    with capsys.disabled():
        print("elastic: training again after", {what: f"{took:.1f} s" for what, took in seconds.items()})
    check_each_example_once(tmp_path)
    check_the_run_is_that_of_one_process(tmp_path)


def test_a_machine_that_falls_silent_is_noticed(machines, tmp_path, capsys):
    """As when its power fails: its connections stay open."""
    first = machines()
    wait_for(tmp_path, first, 1)
    began = time.time()
    second = machines()
    wait_for(tmp_path, first, 2, since=began)

    began = time.time()
    second.signal(signal.SIGSTOP)
    took = wait_for(tmp_path, first, 1, since=began) - began
    second.signal(signal.SIGKILL)
    (tmp_path / "hurry").touch()
    assert first.agent.wait(240) == 0, first.text()
    assert "has given no sign of life for 20 seconds" in first.text()
    with capsys.disabled():
        print(f"elastic: training again after {took:.1f} s of silence")
    check_each_example_once(tmp_path)
