"""A run killed at ten random times and resumed each time ends in the bits of the uninterrupted run."""

import json
from pathlib import Path

from regard.weights.checkpoint import RunFolder
from tests.warm_process import run_python

RECIPE = """
name = "killed"
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
d_model = 16
num_heads = 2
d_ff = 32
num_encoder_layers = 1
num_decoder_layers = 1
dropout = 0.1
[batches]
batch_tokens = 300
[training]
max_steps = 80
accumulate = 2
moving_average = 0.9
save_every = 4
validate_every = 40
report_every = 1
average_last = 3
schedule = { warmup_steps = 20, learning_rate = 0.01 }
[validation]
metrics = ["exact_match"]
[decoding]
beam_size = 1
"""


def test_a_run_killed_ten_times_ends_in_the_bits_of_the_uninterrupted_run(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(RECIPE)
    script = Path(__file__).with_name("killed_at_random.py")
    done = run_python([script, recipe, tmp_path, 10, 80, 1, 1], timeout=600)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found["steps"]) == 10
    assert len(set(found["steps"])) > 5, "the kills fell all over the run"
    uninterrupted, killed = found["digests"]
    assert uninterrupted == killed, found
    runs = [RunFolder(tmp_path / name) for name in ("uninterrupted", "killed")]
    best = [run.best().manifest["files"]["model.safetensors"] for run in runs]
    assert best[0] == best[1]
    losses = [[record["loss"] for record in run.metrics() if "loss" in record] for run in runs]
    assert losses[0] == losses[1]
