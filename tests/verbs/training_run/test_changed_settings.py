"""A run resumes with other settings where no update depends on them; it says and records which."""

import json
from pathlib import Path

import pytest

from regard.errors import FolderError
from regard.verbs.train import train
from regard.verbs.training_run.changed_settings import MAY_CHANGE
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from regard.weights.model_folder import load_model
from tests.verbs.test_train import RECIPE


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(RECIPE)
    return path


def records(run, kind):
    return [record for record in RunFolder(run).metrics() if record["kind"] == kind]


def weights(run):
    return RunFolder(run).latest().read_tensors("model.safetensors")


def test_reports_validations_and_checkpoints_may_be_more_often_from_then_on(recipe, run, tmp_path, capsys):
    longer = "training.max_steps=12"
    train(recipe, out=run, overrides=[longer])
    whole = weights(run)
    other = train(recipe, out=tmp_path / "other", quiet=True).run
    capsys.readouterr()
    often = [f"training.{name}_every=1" for name in ("report", "validate", "save")]
    train(recipe, out=other, overrides=[longer, *often])
    said = capsys.readouterr().err
    assert "from step 9 on the run has other settings: training.report_every: 2 -> 1;" in said
    assert "training.validate_every: 4 -> 1; " in said
    assert "; patience counts validations" in said
    assert [record["step"] for record in records(other, "validation")] == [4, 8, 9, 10, 11, 12]
    before = {"report": 2, "save": 4, "validate": 4}
    changed = {f"training.{name}_every": [old, 1] for name, old in before.items()}
    assert records(other, "settings") == [{"kind": "settings", "step": 8, "changed": changed}]
    resolved = json.loads((other / "resolved.json").read_text())["recipe"]["training"]
    assert resolved["report_every"] == 1
    assert all((whole[name] == weights(other)[name]).all() for name in whole), "no update depends on them"
    before = checkpoint_digest(RunFolder(other).latest())
    train(other)
    assert "other settings" not in capsys.readouterr().err
    assert checkpoint_digest(RunFolder(other).latest()) == before


@pytest.mark.parametrize("setting", ["training.nonfinite_skips=9", "model.dropout=0.2", "data.test.size=9"])
def test_a_setting_on_which_the_rest_of_a_run_depends_is_refused_alone(recipe, run, setting):
    with pytest.raises(FolderError, match=f"another recipe: {setting.partition('=')[0]}: [^;]*$"):
        train(recipe, out=run, overrides=[setting, "training.report_every=1"])
    assert not records(run, "settings")


def test_a_default_that_is_written_out_is_no_change(recipe, run, capsys):
    capsys.readouterr()
    train(recipe, out=run, overrides=["training.seed=1", "training.report_every=2", "batches.window=65536"])
    assert "other settings" not in capsys.readouterr().err
    with pytest.raises(FolderError, match=r"another recipe: training\.seed: 1 -> 2$"):
        train(recipe, out=run, overrides=["training.seed=2"])


def test_a_run_that_stopped_early_continues_with_more_patience(recipe, tmp_path):
    never = [
        "training.best_metric=exact_match",
        "training.schedule.learning_rate=1e-9",
        "training.max_steps=40",
    ]
    out = tmp_path / "run"
    assert train(recipe, out=out, overrides=[*never, "training.patience=1"]).steps == 8
    assert train(recipe, out=out, overrides=[*never, "training.patience=3"]).steps == 16


def test_the_best_model_gets_changed_decoding_defaults(recipe, run, capsys):
    """The weights are those of before, and so is the step of the best validation."""
    before = load_model(run / "best")
    capsys.readouterr()
    train(recipe, out=run, overrides=["decoding.beam_size=3"])
    after = load_model(run / "best")
    assert after.generation["beam_size"] == 3 != before.generation["beam_size"]
    assert after.folder.manifest["step"] == before.folder.manifest["step"]
    assert (run / "best/README.md").is_file()
    assert "beam_size: 2 -> 3; the scores so far" in capsys.readouterr().err


def test_the_page_lists_the_settings_that_may_change():
    table = (Path(__file__).parents[3] / "docs/training.md").read_text("utf-8").partition("may change |")[2]
    for key in MAY_CHANGE:
        assert f"`{key.removeprefix('training.')}`" in table or f"`[{key}]`" in table
