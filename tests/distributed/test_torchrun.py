"""Processes started by torchrun: they end together, restart together, and report an error once."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard.weights.checkpoint import RunFolder, checkpoint_digest
from tests.warm_process import run_python, run_together, start_python

HERE = Path(__file__).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
LONG = ["--set", "training.max_steps=100000"]
SOON = 30.0  # seconds within which all have ended when one has failed
RECIPE = """
name = "several"
[data.train]
synthetic = "reverse"
size = 100
length = 6
[data.valid]
synthetic = "reverse"
split = "valid"
size = 4
length = 6
[tokenizer]
kind = "words"
[model]
d_model = 16
num_heads = 2
d_ff = 32
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.1
[batches]
batch_tokens = 100
[training]
max_steps = 60
moving_average = 0.9
save_every = 5
validate_every = 1000
report_every = 1
schedule = { warmup_steps = 20, learning_rate = 0.01 }
[validation]
metrics = ["exact_match"]
[decoding]
beam_size = 1
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text(RECIPE)
    return path


def train(recipe, out, *more):
    return ["train", str(recipe), "--out", str(out), "--threads", "1", *more]


REGARD = ("-m", "regard")


def side_by_side(*commands, program=REGARD):
    """Starts regard with these arguments as the processes of one run; returns exit codes and stderrs."""
    with socket.create_server(("localhost", 0)) as free:
        port = str(free.getsockname()[1])
    place = {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "WORLD_SIZE": str(len(commands))}
    envs = [
        {**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(len(commands))
    ]
    programs = [[*program, *command] for command in commands]
    done = run_together(*programs, envs=envs, timeout=120)
    return [each.returncode for each in done], [each.stderr for each in done]


def workers_of(agent):
    """The process ids of torchrun's workers, by rank."""
    found = {}
    for child in Path(f"/proc/{agent}/task/{agent}/children").read_text().split():
        text = ""
        with contextlib.suppress(OSError):  # it has just ended
            text = Path(f"/proc/{child}/environ").read_bytes().decode("utf-8", "replace")
        if match := re.search(r"(?:^|\0)RANK=(\d+)\0", text):
            found[int(match[1])] = int(child)
    return found


def wait_for_step(out, step, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        if (out / "metrics.jsonl").exists():
            steps = [record["step"] for record in RunFolder(out).metrics()]
            if steps and steps[-1] >= step:
                return
        time.sleep(0.02)
    raise AssertionError(f"it never came to step {step}")


def reported_once(stderr, *words):
    errors = re.findall(r"^error: .*", stderr, re.MULTILINE)
    assert len(errors) == 1, stderr
    assert len(re.findall(r"^hint: ", stderr, re.MULTILINE)) == 1, stderr
    assert all(word in errors[0] for word in words), errors


@pytest.mark.nightly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="finds the processes in /proc")
def test_a_killed_process_restarts_and_the_run_ends_in_the_bits_of_an_uninterrupted_one(recipe, tmp_path):
    alone, killed = tmp_path / "uninterrupted", tmp_path / "killed"
    command = [sys.executable, "-m", "regard", *train(recipe, alone, "--workers", "2")]
    subprocess.run(command, check=True, capture_output=True)
    command = [*TORCHRUN, "--max-restarts", "2", "-m", "regard", *train(recipe, killed)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for_step(killed, 12, process)
        os.kill(workers_of(process.pid)[1], signal.SIGKILL)
        stderr = process.communicate(timeout=120)[1]
    assert process.returncode == 0, stderr
    assert "resuming from step" in stderr
    assert checkpoint_digest(RunFolder(killed).latest()) == checkpoint_digest(RunFolder(alone).latest())


def test_a_full_disk_stops_all_and_is_reported_once(recipe, tmp_path):
    out = tmp_path / "run"
    process = start_python([*TORCHRUN[1:], HERE / "failing_disk.py", *train(recipe, out, *LONG)])
    wait_for_step(out, 1, process)
    began = time.monotonic()
    stderr = process.communicate(timeout=120)[1].decode()
    assert time.monotonic() - began < SOON
    assert process.returncode == 1
    reported_once(stderr, "cannot save", "No space left on device")
    assert RunFolder(out).latest().step == 0, "what was saved before is whole"


def test_an_error_of_all_processes_is_reported_by_the_first(recipe, tmp_path):
    command = train(recipe, tmp_path / "run", "--set", "batches.batch_examples=1")
    codes, caught = side_by_side(command, command)
    assert codes == [2, 2]
    reported_once(caught[0], "batches.batch_examples = 1 cannot be shared among 2 processes")
    assert caught[1] == ""


def test_another_recipe_in_another_process_is_refused(recipe, tmp_path):
    command = train(recipe, tmp_path / "run")
    codes, caught = side_by_side(command, [*command, "--set", "training.seed=7"])
    assert codes == [2, 2]
    reported_once(caught[0], "process 1 has another recipe than process 0: training.seed: not set -> 7")
    assert caught[1] == ""


def test_an_error_of_one_process_is_reported_by_the_first(recipe, tmp_path):
    out = tmp_path / "run"
    codes, caught = side_by_side(train(recipe, out), train(tmp_path / "elsewhere.toml", out))
    assert codes == [2, 2]
    reported_once(caught[0], "process 1: ", "elsewhere.toml: no such recipe")
    assert caught[1] == ""


def test_two_runs_in_one_folder_are_refused_once(recipe, tmp_path):
    with RunFolder(tmp_path / "run").lock():
        codes, caught = side_by_side(*[train(recipe, tmp_path / "run")] * 2)
    assert codes == [2, 1]
    reported_once(caught[0], f"is in use by process {os.getpid()}")
    assert caught[1] == ""


def test_half_a_place_is_refused(recipe, tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    done = run_python(["-m", "regard", *train(recipe, tmp_path / "run")])
    assert done.returncode == 2
    reported_once(done.stderr, "RANK is set, but MASTER_ADDR is not")


def test_a_world_of_one_is_stopped_like_any_run(recipe, tmp_path):
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}
    command = ["-m", "regard", *train(recipe, tmp_path / "run", *LONG)]
    process = start_python(command, env={**os.environ, **place})
    wait_for_step(tmp_path / "run", 2, process)
    process.send_signal(signal.SIGTERM)
    stderr = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 143
    reported_once(stderr, "stopped at step", "which is saved")


LATE = """
import os, sys, time
os.setsid()
from regard.cli import main
from regard.distributed import workers
start = workers._start
def start_and_wait(*given):
    start(*given)
    print("started", flush=True)
    time.sleep(99)
workers._start = start_and_wait
sys.argv[0] = "regard"
main()
"""


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGKILL, -9), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.nightly)]
)
def test_a_worker_ends_with_the_process_that_started_it(recipe, tmp_path, number, code):
    """Also while it waits at the rendezvous for that process."""
    process = start_python(["-c", LATE, *train(recipe, tmp_path / "run", "--workers", "2")])
    try:
        assert process.stdout
        assert process.stdout.readline() == b"started\n"
        time.sleep(1)
        process.send_signal(number)
        # open as long as the worker lives, whose it is too
        stderr = process.communicate(timeout=SOON)[1].decode()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == code
    assert stderr.splitlines()[:1] == ([] if code < 0 else ["error: stopped by SIGTERM"])


GROUP = """
import os, sys
os.setsid()
from regard.cli import main
sys.argv[0] = "regard"
main()
"""


def test_workers_that_are_still_preparing_end_at_a_sigterm(recipe, tmp_path):
    recipe.write_text(RECIPE.replace("size = 100", "size = 60000"))
    process = start_python(["-c", GROUP, *train(recipe, tmp_path / "run", "--workers", "2")])
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("run/data/train*")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    stderr = process.communicate(timeout=SOON)[1].decode()
    assert time.monotonic() - began < SOON
    assert process.returncode == 143
    reported_once(stderr, "stopped by SIGTERM")
    with pytest.raises(ProcessLookupError):  # the process has ended
        os.killpg(process.pid, 0)
