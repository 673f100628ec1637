"""A run of `kind = "noam"` keeps its factor, also one from before the default became the paper's."""

import json

import pytest

from regard.errors import FolderError
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder
from tests.verbs.test_train import RECIPE

NOAM = RECIPE + '[training.schedule]\nkind = "noam"\nwarmup_steps = 100\n'
RATE = "training.schedule.learning_rate"


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(NOAM)
    return path


@pytest.fixture
def old(recipe, tmp_path):
    """A run of a version whose default was 0.001, which it did not record."""
    run = train(recipe, out=tmp_path / "run", overrides=[f"{RATE}=0.001"], quiet=True).run
    saved = json.loads((run / "resolved.json").read_text())
    del saved["recipe"]["training"]["schedule"]["learning_rate"], saved["text_sha256"]
    (run / "resolved.json").write_text(json.dumps(saved))
    (run / "recipe.toml").write_text(NOAM)
    return run


def factors(run):
    """The factor of each report: the rate by that of the paper in its warm-up."""
    records = [record for record in RunFolder(run).metrics() if record["kind"] == "train"]
    return [record["learning_rate"] / (16**-0.5 * record["step"] * 100**-1.5) for record in records]


def longer(steps):
    return [f"training.max_steps={steps}"]


@pytest.mark.parametrize("by_recipe", [True, False])
def test_an_old_run_keeps_its_factor_each_time_it_resumes(old, recipe, capsys, by_recipe):
    named = recipe if by_recipe else old
    for count, steps in enumerate((12, 16)):
        capsys.readouterr()
        train(named, out=old, overrides=longer(steps))
        said = capsys.readouterr().err
        assert (f"keeps {RATE} = 0.001" in said) == (by_recipe or not count)
        assert factors(old) == pytest.approx([0.001] * (steps // 2))
    train(named, out=old)
    assert len(factors(old)) == 8


def test_an_old_run_has_no_other_factor(old, recipe):
    with pytest.raises(FolderError, match=rf"{RATE}: 0\.001 -> 1\.0"):
        train(recipe, out=old, overrides=[f"{RATE}=1.0"])
    train(recipe, out=old, overrides=[*longer(10), f"{RATE}=0.001"])
    assert factors(old) == pytest.approx([0.001] * 5)


def test_a_new_run_records_the_factor_of_the_paper(recipe, tmp_path, capsys):
    run = train(recipe, out=tmp_path / "run").run
    schedule = json.loads((run / "resolved.json").read_text())["recipe"]["training"]["schedule"]
    assert schedule["learning_rate"] == 1.0
    train(recipe, out=run, overrides=longer(10))
    train(run, overrides=longer(12))
    train(recipe, out=run, overrides=[*longer(14), f"{RATE}=1"])
    assert factors(run) == pytest.approx([1.0] * 7)
    assert "keeps training.schedule" not in capsys.readouterr().err
