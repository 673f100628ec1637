"""A run is made longer or shorter by another max_steps; it may keep more checkpoints."""

import json

import pytest
import torch

from regard.data import Loader, LoaderSettings, TensorExamples
from regard.errors import FolderError
from regard.training.rate_warning import rate_warning
from regard.training.schedule import Schedule, ScheduleSettings
from regard.training.settings import TrainingSettings
from regard.verbs.train import train
from regard.verbs.training_run.run_summary import training_summary
from regard.verbs.translate import Translator
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from tests.verbs.test_train import RECIPE


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def test_a_longer_run_resumes_from_its_last_checkpoint_and_records_its_length(recipe, run, capsys):
    capsys.readouterr()
    assert train(recipe, out=run, overrides=["training.max_steps=12"]).steps == 12
    output = capsys.readouterr().err
    assert "the run has 12 updates now, not 8: from step 9 on" in output
    assert json.loads((run / "resolved.json").read_text())["recipe"]["training"]["max_steps"] == 12
    records = RunFolder(run).metrics()
    assert {"kind": "length", "step": 8, "before": 8, "max_steps": 12} in records
    assert [record["step"] for record in records if record["kind"] == "validation"] == [4, 8, 12]
    before = checkpoint_digest(RunFolder(run).latest())
    assert train(run).steps == 12, "the run folder knows its length"
    assert checkpoint_digest(RunFolder(run).latest()) == before


def test_the_command_that_began_a_run_resumes_it_after_it_was_made_longer(recipe, run, capsys):
    train(recipe, out=run, overrides=["training.max_steps=12"])
    before = checkpoint_digest(RunFolder(run).latest())
    capsys.readouterr()
    assert train(recipe, out=run).steps == 12
    assert "the run keeps its 12 updates, which have replaced the 8 of the recipe" in capsys.readouterr().err
    assert checkpoint_digest(RunFolder(run).latest()) == before
    assert json.loads((run / "resolved.json").read_text())["recipe"]["training"]["max_steps"] == 12
    with pytest.raises(FolderError, match=r"beyond training\.max_steps = 8"):
        train(recipe, out=run, overrides=["training.max_steps=8"])
    recipe.write_text(RECIPE.replace("max_steps = 8", "max_steps = 16"))
    assert train(recipe, out=run).steps == 16, "an edited recipe counts"


def test_a_run_made_longer_before_its_first_update_equals_a_run_of_that_length(recipe, tmp_path):
    """Nothing but the length decides: no old schedule is left over."""
    longer = ["training.max_steps=12", "training.schedule.warmup=0.5"]
    train(recipe, out=tmp_path / "whole", overrides=longer)
    run = tmp_path / "run"
    with pytest.raises(ZeroDivisionError):  # before the first update is reported
        train(
            recipe,
            out=run,
            overrides=["training.report_every=1", "training.schedule.warmup=0.5"],
            on_report=lambda record: 1 // 0,
        )
    train(recipe, out=run, overrides=["training.report_every=1", *longer])
    found = [RunFolder(path).latest().read_tensors("model.safetensors") for path in (tmp_path / "whole", run)]
    assert all((found[0][name] == found[1][name]).all() for name in found[0])


def test_a_run_is_made_shorter_but_not_than_its_step(recipe, run):
    with pytest.raises(FolderError) as caught:
        train(recipe, out=run, overrides=["training.max_steps=4"])
    assert "at step 8 of 8, beyond training.max_steps = 4" in caught.value.message
    assert f"regard train {run}" in caught.value.hint
    with pytest.raises(FolderError, match=r"training\.seed"):
        train(recipe, out=run, overrides=["training.max_steps=12", "training.seed=5"])
    assert json.loads((run / "resolved.json").read_text())["recipe"]["training"]["max_steps"] == 8


def test_a_run_that_keeps_more_checkpoints_is_the_same_run(recipe, run):
    train(recipe, out=run, overrides=["training.keep=3", "training.max_steps=16"])
    assert [each.step for each in RunFolder(run).checkpoints()] == [16, 12, 8]
    train(recipe, out=run, overrides=["training.keep=2", "training.max_steps=16"])
    saved = json.loads((run / "resolved.json").read_text())["recipe"]["training"]
    assert (saved["keep"], saved["max_steps"]) == (2, 16)


@pytest.mark.parametrize("overrides", [[], ["training.max_steps=12"]])
def test_a_resumed_run_says_which_checkpoint_is_lost_even_if_it_is_quiet(recipe, run, capsys, overrides):
    (run / "checkpoints" / "step-00000008" / "state.json").unlink()
    capsys.readouterr()
    train(recipe, out=run, overrides=overrides, quiet=True)
    warning = capsys.readouterr().err.splitlines()[0]
    assert warning.startswith("warning: ")
    assert "step-00000008/state.json is missing; it was renamed to step-00000008.broken-" in warning
    assert warning.endswith("the checkpoint of step 4 is used: 4 updates are lost")


def test_using_an_unfinished_run_prints_its_step(recipe, tmp_path, capsys):
    run = tmp_path / "run"

    def stop_at_the_second_validation(record):
        if record["kind"] == "validation" and record["step"] == 8:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(recipe, out=run, overrides=["training.max_steps=20"], on_report=stop_at_the_second_validation)
    capsys.readouterr()
    Translator(run)
    assert (
        f"{run}: the run is at step 4 of 20; its best model so far is that of step 4"
        in capsys.readouterr().err
    )
    Translator(run / "best")
    assert "at step 4 of 20" in capsys.readouterr().err
    train(run)
    capsys.readouterr()
    Translator(run)
    assert "step" not in capsys.readouterr().err


@pytest.mark.parametrize("step", [16, 20])
def test_a_finished_run_is_named_so_before_it_ends(step):
    """Also one that was longer before it was made shorter."""
    examples = TensorExamples(torch.zeros(6, 1), torch.zeros(6, dtype=torch.int64))
    loader = Loader(examples, LoaderSettings(batch_examples=1), seed=1)
    line = training_summary(TrainingSettings(max_steps=16), loader, {"step": step})
    assert (
        line == f"training: finished at update {step}; a larger --set training.max_steps=... makes it longer"
    )
    assert "updates 16 to 16" in training_summary(TrainingSettings(max_steps=16), loader, {"step": 15})


@pytest.mark.parametrize(
    ("schedule", "share", "instead"),
    [
        ({}, 30, "warmup_steps=30"),  # 1,000 updates are the default
        ({"warmup_steps": 600}, 50, "warmup_steps=30"),
        ({"warmup": 0.8, "cooldown": 0.6}, 52, "warmup=0.1"),
        ({"warmup_steps": 300}, None, ""),
        ({"warmup": 0.2, "cooldown": 0.8}, None, ""),
        ({"warmup_steps": 1}, None, ""),
    ],
)
def test_a_run_too_short_for_its_warm_up_is_named_with_what_to_do(schedule, share, instead):
    settings = TrainingSettings(max_steps=300, schedule=ScheduleSettings(**schedule))
    rates = [Schedule(settings=settings.schedule, max_steps=300, d_model=1)(step) for step in range(1, 301)]
    warning = rate_warning(settings, d_model=1)
    if share is None:
        assert not warning
        assert max(rates) > 0.9e-3
    else:
        assert f"reaches {share} % of its peak: --set training.schedule.{instead}" in warning
        assert round(max(rates) / 1e-5) == share


def test_a_short_run_warns_once_of_its_warm_up(recipe, tmp_path, capsys):
    short = {"overrides": ["training.max_steps=4", "training.schedule.warmup_steps=8"]}
    for _ in range(2):  # the second time the run has ended
        train(recipe, out=tmp_path / "run", **short)
    assert capsys.readouterr().err.count("the warm-up takes 8 of 4 updates") == 1
