"""A hundred recorded losses: equal to nine digits on the machine that recorded them, close on others.

After an intended change, or on another type of machine, record them again:

    python tests/training/test_golden.py
"""

import hashlib
import json
import platform
import subprocess
from pathlib import Path

import pytest
import torch

from regard.fast.native.compiler import find_compiler
from regard.fast.native.kernels import available
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder

GOLDEN = Path(__file__).with_name("golden_losses.json")
RECIPE = """
name = "golden"
[data.train]
synthetic = "reverse"
size = 400
length = 8
[data.valid]
synthetic = "reverse"
split = "valid"
size = 20
length = 8
[tokenizer]
kind = "words"
[model]
d_model = 32
num_heads = 4
d_ff = 64
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.1
[batches]
batch_tokens = 300
[training]
max_steps = 100
accumulate = 2
label_smoothing = 0.1
moving_average = 0.9
save_every = 100
validate_every = 100
report_every = 1
schedule = { warmup_steps = 20, learning_rate = 0.005 }
[decoding]
beam_size = 1
"""


def machine() -> str:
    """What determines the last bits: PyTorch's version, the processor's capabilities, kernels in C."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else [f"flags {platform.processor()}"]
    can = [line for line in lines if line.startswith(("flags", "model name"))][:2]
    caught = f"{torch.__version__} {platform.machine()} {can} {compiler() if available() else None}"
    return hashlib.sha256(caught.encode()).hexdigest()[:16]


def compiler() -> str:
    """The compiler of the kernels, which decides about contraction of products and sums."""
    found = find_compiler()
    assert found is not None
    return subprocess.run(
        [*found, "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]


def losses(folder: Path) -> list[str]:
    """The loss of each of the hundred steps, in nats per token."""
    recipe = folder / "recipe.toml"
    recipe.write_text(RECIPE, "utf-8")
    train(recipe, out=folder / "run", threads=1)
    records = RunFolder(folder / "run").metrics()
    return [f"{record['loss']:.9g}" for record in records if "tokens_per_second" in record]


def test_a_hundred_losses_are_those_that_were_written_down(tmp_path):
    golden = json.loads(GOLDEN.read_text("utf-8"))
    found = losses(tmp_path)
    assert len(found) == 100
    if machine() in golden:
        assert found == golden[machine()]
    for ours, reference in zip(found, next(iter(golden.values())), strict=True):
        assert float(ours) == pytest.approx(float(reference), rel=1e-3)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        known = json.loads(GOLDEN.read_text("utf-8")) if GOLDEN.exists() else {}
        GOLDEN.write_text(json.dumps({**known, machine(): losses(Path(place))}, indent=1) + "\n", "utf-8")
