"""Training as a user meets it: run folders that resume or refuse, dry runs, signals."""

import json
import os
import re
import select
import shutil
import signal

import pytest
import torch
import torch.nn.functional as F

import regard
from regard.errors import ConfigError, DataError, FolderError, RecipeError, UserError
from regard.training import register_loss, register_optimizer, register_schedule
from regard.training.gradients import Gradients
from regard.training.objective import ignored_label
from regard.training.prefetch import prepared_for_gpu
from regard.training.registered_optimizers import OPTIMIZERS
from regard.training.schedule import SCHEDULES
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from regard.weights.model_folder import load_model
from tests.warm_process import run_python, start_python

RECIPE = """
name = "small"
card = "Made by a test."
[data.train]
synthetic = "copy"
size = 200
length = 5
[data.valid]
synthetic = "copy"
split = "valid"
size = 20
length = 5
[data.test]
synthetic = "copy"
split = "test"
size = 20
length = 5
[tokenizer]
kind = "words"
[model]
d_model = 16
num_heads = 2
d_ff = 32
num_encoder_layers = 1
num_decoder_layers = 1
[batches]
batch_tokens = 200
[training]
max_steps = 8
save_every = 4
validate_every = 4
report_every = 2
[validation]
metrics = ["exact_match", "bleu"]
[decoding]
beam_size = 2
"""


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """What `train` gives of this recipe; no test changes its run."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.toml").write_text(RECIPE)
    return train(folder / "small.toml", out=folder / "run")


def test_a_recipe_becomes_a_scored_model_folder(finished):
    result = finished
    assert result.steps == 8
    assert set(result.metrics) == {"exact match", "BLEU"}
    assert result.model is not None
    model = load_model(result.model)
    assert model.generation["beam_size"] == 2
    card = (result.model / "README.md").read_text()
    assert "Made by a test." in card
    assert "BLEU" in card
    assert "nrefs:1" in card, "a score has its signature"
    assert (result.model / "recipe.toml").read_text() == RECIPE
    kinds = [json.loads(line)["kind"] for line in (result.run / "metrics.jsonl").read_text().splitlines()]
    assert kinds.count("train") == 4
    assert kinds.count("validation") == 2


def test_what_a_gpu_knows_of_a_translation_holds_for_its_recipe(recipe, tmp_path, monkeypatch):
    """Its objective is known, and its batches have all that a pass without padding and recording needs."""
    seen, usual = [], Gradients._pass

    def noted(self, batch):
        prepared = prepared_for_gpu(batch, ignored_label(self.objective))
        seen.append((self._is_known, prepared.targets is not None, prepared.packed is not None))
        return usual(self, batch)

    monkeypatch.setattr(Gradients, "_pass", noted)
    train(recipe, out=tmp_path / "run", quiet=True)
    assert seen == [(True, True, True)] * 8


@pytest.mark.parametrize(("wanted", "warns"), [(2, False), (5, True)])
def test_a_mean_of_fewer_checkpoints_than_wanted_is_named(recipe, tmp_path, capsys, wanted, warns):
    train(recipe, out=tmp_path / "run", overrides=[f"training.average_last={wanted}"], quiet=True)
    warning = "training.average_last = 5, but the run has 2 checkpoints to average: training.save_every is 4"
    assert (warning in capsys.readouterr().err) is warns


def test_a_run_resumes_by_its_recipe_or_its_folder(recipe, tmp_path, finished):
    shutil.copytree(finished.run, tmp_path / "run")
    before = checkpoint_digest(RunFolder(tmp_path / "run").latest())
    train(recipe, out=tmp_path / "run")
    recipe.unlink()
    train(tmp_path / "run", resume=True)
    assert checkpoint_digest(RunFolder(tmp_path / "run").latest()) == before


def test_a_run_folder_with_another_recipe_is_refused_and_the_differences_are_named(recipe, finished):
    with pytest.raises(FolderError) as caught:
        train(recipe, out=finished.run, overrides=["training.seed=2", "model.d_ff=64"])
    assert "model.d_ff: 32 -> 64; training.seed: 1 -> 2" in caught.value.message
    assert "--out" in caught.value.hint


def test_early_stopping_is_announced_and_named_again_on_resuming(recipe, tmp_path, capsys):
    changes = ["training.patience=1", "training.max_steps=40", "training.best_metric=exact_match"]
    changes.append("training.schedule.learning_rate=1e-9")  # which never matches exactly
    result = train(recipe, out=tmp_path / "run", overrides=changes, threads=1)
    assert result.steps == 8
    line = (
        "training: stopped early at update 8 of 40: 1 validation without a better exact_match"
        " (training.patience = 1); the best model is that of update 4\n"
    )
    assert capsys.readouterr().err.count(line) == 1
    train(tmp_path / "run", threads=1)
    assert capsys.readouterr().err.count(line) == 1


def test_resume_needs_a_run(recipe, tmp_path):
    with pytest.raises(FolderError, match="no run to resume"):
        train(recipe, out=tmp_path / "run", resume=True)
    assert not (tmp_path / "run").exists()


def test_a_second_process_on_a_run_folder_is_refused(recipe, tmp_path):
    with RunFolder(tmp_path / "run").lock(), pytest.raises(FolderError) as caught:
        train(recipe, out=tmp_path / "run")
    assert str(tmp_path / "run") in caught.value.message


def test_a_dry_run_prints_the_run_s_time_and_memory_and_keeps_nothing(recipe, tmp_path, capsys):
    result = train(recipe, out=tmp_path / "run", dry_run=True)
    assert result.run is None
    assert set(result.metrics) == {"loss", "exact_match", "bleu"}
    assert not (tmp_path / "run").exists()
    output = capsys.readouterr().err
    assert "train: 200 pairs" in output
    assert re.search(r"the run: 0:\d\d:\d\d for 8 updates, 0:\d\d:\d\d at most for 2 validations", output)
    assert "GiB at most, with the largest batches" in output


def test_a_run_first_prints_its_length_and_a_resumed_run_its_remaining_time(recipe, tmp_path, capsys):
    train(recipe, out=tmp_path / "run")
    output = capsys.readouterr().err
    assert re.search(r"training: 8 updates \(\d\.\d epochs of \d+ updates\), 2 validations", output)
    train(recipe, out=tmp_path / "run", overrides=["training.max_steps=12"])
    output = capsys.readouterr().err
    assert re.search(r"updates 9 to 12 .*, 1 validation; about 0:00:\d\d", output)


def test_each_record_is_passed_to_the_callback_and_quiet_prints_nothing(recipe, tmp_path, capsys):
    records = []
    warmed_up = ["training.schedule.warmup_steps=1"]
    train(recipe, out=tmp_path / "run", quiet=True, on_report=records.append, overrides=warmed_up)
    out, err = capsys.readouterr()
    assert (out, err) == ("", "")
    # the scores of the test at the end are not a report of the training
    assert records == [record for record in RunFolder(tmp_path / "run").metrics() if record["kind"] != "test"]
    assert {"train", "validation"} == {record["kind"] for record in records}
    assert train(recipe, dry_run=True, quiet=True, overrides=warmed_up).steps == 1
    assert capsys.readouterr() == ("", "")


def test_a_custom_loss_is_trained_by_its_name(recipe, tmp_path):
    records = []

    @register_loss("half")
    def half(logits, labels):
        records.append(logits.shape == (len(labels), 14))
        return F.cross_entropy(logits, labels, reduction="none") / 2

    train(recipe, out=tmp_path / "run", overrides=["training.loss=half"])
    assert len(records) == 8 + 2, "the first two are a trial of its scale"
    assert all(records)
    with pytest.raises(RecipeError, match="halv") as caught:
        train(recipe, out=tmp_path / "other", overrides=["training.loss=halv"])
    assert "'half'" in caught.value.hint
    with pytest.raises(RecipeError, match="2 workers"):
        train(recipe, out=tmp_path / "third", overrides=["training.loss=half"], workers=2)


def test_a_registered_loss_with_the_wrong_sign_is_warned_of(recipe, tmp_path, capsys):
    register_loss("climbing")(lambda logits, labels: -F.cross_entropy(logits, labels, reduction="none"))
    settings = {"loss": "climbing", "max_steps": 40, "validate_every": 10, "collapse.retries": 0}
    overrides = [f"training.{name}={value}" for name, value in settings.items()]
    fast = ["training.schedule.kind=constant", "training.schedule.learning_rate=0.1"]
    train(recipe, out=tmp_path / "run", overrides=[*overrides, *fast, "training.schedule.warmup_steps=1"])
    assert "(does the loss 'climbing' fall as predictions improve?)" in capsys.readouterr().err


def test_a_registered_optimiser_and_schedule_are_needed_for_training_alone(recipe, tmp_path, monkeypatch):
    monkeypatch.setattr(OPTIMIZERS, "added", {})
    monkeypatch.setattr(SCHEDULES, "added", {})
    register_optimizer("mine")(lambda groups, momentum=0.0: torch.optim.SGD(groups, momentum=momentum))
    register_schedule("flat")(lambda step, warmup, max_steps: 1.0)
    chosen = [
        "training.optimizer.kind=mine",
        "training.optimizer.options.momentum=0.5",
        "training.schedule.kind=flat",
    ]
    run = train(recipe, out=tmp_path / "run", overrides=chosen, quiet=True)
    with pytest.raises(
        RecipeError, match=r"training\.optimizer\.kind = 'mine' is registered in this process"
    ):
        train(recipe, out=tmp_path / "other", overrides=chosen, workers=2)
    with pytest.raises(RecipeError, match=r"training\.schedule\.kind = 'flat' is registered in this process"):
        train(recipe, out=tmp_path / "other", overrides=chosen[2:], workers=2)
    with pytest.raises(RecipeError, match="'mine': got an unexpected keyword argument 'momentun'") as refused:
        train(recipe, out=tmp_path / "other", overrides=[chosen[0], "training.optimizer.options.momentun=1"])
    assert "momentum" in refused.value.hint
    OPTIMIZERS.added.clear()
    with pytest.raises(RecipeError, match="no optimiser is registered as 'mine'"):
        train(run.run, overrides=["training.max_steps=9"])
    SCHEDULES.added.clear()
    with pytest.raises(RecipeError, match="no schedule is registered as 'flat'"):
        train(recipe, out=tmp_path / "other", overrides=chosen[2:])
    assert not (tmp_path / "other").exists(), "refused before anything is written"
    assert isinstance(regard.translate("3 1 4", model=run.model), str)
    assert regard.evaluate(model=run.run)


@pytest.mark.parametrize(
    ("override", "error", "message"),
    [
        ("training.best_metric=chrf", RecipeError, "chrf"),
        ("model.d_modle=32", UserError, "d_modle"),
        ("model.num_heads=3", UserError, "num_heads"),
        ("data.train={file='missing.tsv', format='tsv'}", DataError, "missing.tsv"),
        ("data.train.size=0", RecipeError, "size"),
        ("tokenizer.kind=wordpunct", RecipeError, "does not keep spaces"),
        ("tokenizer.min_count=100000", DataError, "tokens are unknown"),
        ("training.schedule.kind=cosin", RecipeError, "cosin"),
    ],
)
def test_a_recipe_that_cannot_work_is_refused_before_anything_is_written(
    recipe, tmp_path, override, error, message
):
    with pytest.raises(error) as caught:
        train(recipe, out=tmp_path / "run", overrides=[override], dry_run=True)
    assert message in caught.value.message + caught.value.hint
    assert caught.value.hint


SIGHUP = getattr(signal, "SIGHUP", None)  # Windows has none
WITH_SIGHUP = pytest.mark.skipif(SIGHUP is None, reason="no such signal")


# a shell's background job, such as CI may be, ignores SIGHUP, and so would its children
HEARS_ALL = """
import signal
from regard.cli import main
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
main()
"""
# the first argument is a terminal, which becomes its own: it hears when it is closed
AT_A_TERMINAL = f"""
import fcntl, os, sys, termios
os.setsid()
terminal = os.open(sys.argv.pop(1), os.O_RDWR)
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
for stream in range(3):
    os.dup2(terminal, stream)
sys.stdout = open(1, "w", 1, closefd=False)
sys.stderr = open(2, "w", 1, closefd=False)
os.close(terminal)
{HEARS_ALL}
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGTERM, 143),
        pytest.param(signal.SIGINT, 130, marks=pytest.mark.nightly),
        pytest.param(SIGHUP, 129, marks=[WITH_SIGHUP, pytest.mark.nightly]),
    ],
)
def test_a_signal_saves_the_current_step_and_prints_how_to_resume(recipe, tmp_path, number, code):
    run = tmp_path / "run"
    command = ["-c", HEARS_ALL, "train", recipe, "--out", run, "--threads", "1"]
    command += ["--set", "training.max_steps=100000", "--set", "training.validate_every=100000"]
    process = start_python(command)
    while b"step 10 " not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(number)
    output = process.communicate(timeout=60)[1].decode()
    assert process.returncode == code
    assert "Traceback" not in output
    latest = RunFolder(run).latest()
    assert latest is not None
    assert f"stopped at step {latest.step}" in output
    assert f"regard train {run}" in output
    assert latest.step == json.loads((latest.path / "state.json").read_text())["step"]


@WITH_SIGHUP
def test_a_closed_terminal_saves_the_current_step(recipe, tmp_path):
    """The system and the shell both send SIGHUP then, and each word to the terminal is an error."""
    run = tmp_path / "run"
    master, terminal = os.openpty()
    command = ["-c", AT_A_TERMINAL, os.ttyname(terminal)]
    command += ["train", recipe, "--out", run, "--threads", "1"]
    command += ["--set", "training.max_steps=100000", "--set", "training.validate_every=100000"]
    command += ["--set", "training.save_every=100000"]
    process = start_python(command)
    metrics = run / "metrics.jsonl"
    while not (metrics.exists() and '"train"' in metrics.read_text()):
        assert process.poll() is None
        if select.select([master], [], [], 0.1)[0]:
            os.read(master, 4096)
    os.close(terminal)
    os.close(master)
    process.send_signal(SIGHUP)
    process.communicate(timeout=60)
    assert process.returncode == 129
    latest = RunFolder(run).latest()
    assert latest is not None
    assert latest.step > 0
    assert latest.step == json.loads((latest.path / "state.json").read_text())["step"]


@pytest.mark.nightly  # test_extension.py has workers of a script, tests/cli/test_train.py this option
def test_two_workers_train_one_model(recipe, tmp_path):
    command = ["-m", "regard", "train", recipe, "--threads", "1", "--workers", "2"]
    done = run_python([*command, "--out", tmp_path / "run"], timeout=120)
    assert done.returncode == 0, done.stderr
    assert "2 workers of 1 thread" in done.stderr
    assert RunFolder(tmp_path / "run").latest().step == 8


def test_too_few_learned_positions_are_refused_before_training(recipe, tmp_path):
    learned = ["model.positions=learned", "model.max_positions=3"]
    with pytest.raises(
        ConfigError, match="max_positions = 3 is too small: a training line has 6 tokens"
    ) as caught:
        train(recipe, out=tmp_path / "run", overrides=learned)
    assert "model.max_positions = 6" in caught.value.hint
    assert not list((tmp_path / "run").glob("checkpoints/*"))
