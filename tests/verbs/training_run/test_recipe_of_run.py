"""The recipe in a model folder and a run folder is that of the training, and can be trained again."""

import json
import re
import shutil
import tomllib

import pytest

from regard.errors import DataError, FolderError, RecipeError
from regard.verbs import plot
from regard.verbs.average import average
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.settings import load_recipe
from regard.verbs.sweep import sweep
from regard.verbs.train import train
from regard.weights.checkpoint import RESOLVED, RunFolder
from tests.verbs.tasks.test_classification import RECIPE, texts
from tests.verbs.tasks.test_language_model import RECIPE as RHYMES
from tests.verbs.tasks.test_language_model import RHYME

SHORT = ("training.max_steps=8", "training.validate_every=4", "training.save_every=4")


def films(folder):
    folder.mkdir(exist_ok=True)
    for name, count, seed in (("train", 60, 0), ("test", 30, 200), ("other", 20, 300)):
        (folder / f"{name}.txt").write_text(texts(count, seed))
    (folder / "films.toml").write_text(RECIPE)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = films(tmp_path_factory.mktemp("trained"))
    sets = [*SHORT, "data.test.file=other.txt", "model.d_ff=24", "description=changed"]
    train(folder / "films.toml", out=folder / "runs/one", overrides=sets)
    return folder


@pytest.fixture
def project(trained, tmp_path):
    """The project, moved to another folder by someone: the old one is still there, without its files."""
    moved = shutil.copytree(trained, tmp_path / "moved")
    saved = json.loads((moved / "runs/one" / RESOLVED).read_text())
    (tmp_path / "old").mkdir()
    (moved / "runs/one" / RESOLVED).write_text(json.dumps({**saved, "base": str(tmp_path / "old")}))
    return moved


def table(path):
    return tomllib.loads(path.read_text("utf-8"))


def test_all_folders_of_a_run_have_the_recipe_of_its_training(trained):
    run = trained / "runs/one"
    wanted = json.loads((run / RESOLVED).read_text())["recipe"]
    assert wanted["model"]["d_ff"] == 24
    folders = (run, run / "best", *(each.path for each in RunFolder(run).checkpoints()))
    assert all(table(folder / "recipe.toml") == wanted for folder in folders)


def test_a_sweep_writes_the_values_of_each_run(tmp_path):
    folder = films(tmp_path)
    sweep(folder / "films.toml", ["training.seed=5,6"], out=folder / "runs", overrides=SHORT, quiet=True)
    assert [table(folder / f"runs/seed={n}/best/recipe.toml")["training"]["seed"] for n in (5, 6)] == [5, 6]


def test_a_copy_of_a_model_is_evaluated_as_in_its_run(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(trained)
    inside = evaluate(model="runs/one")
    copy = shutil.copytree("runs/one/best", tmp_path / "copy")
    assert inside.examples == "20 texts"
    outside = evaluate(model=copy)
    assert (outside.examples, outside.scores) == (inside.examples, inside.scores)
    mean = average("runs/one", last=1, out=tmp_path / "mean")
    assert evaluate(model=mean).examples == "20 texts"


def test_a_copy_of_a_language_model_has_the_perplexity_of_its_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rhyme.txt").write_text(RHYME * 100)
    (tmp_path / "rhyme.toml").write_text(RHYMES)
    sets = ["task.block=12", "validation.context=4", *SHORT]
    result = train("rhyme.toml", overrides=sets)
    copy = shutil.copytree(result.model, tmp_path / "copy")
    assert evaluate(model=copy).scores == evaluate(model=result.model).scores


def test_the_recipe_of_a_run_or_its_model_trains_again(trained, tmp_path):
    best = RunFolder(trained / "runs/one").best().read_tensors("model.safetensors")
    for name in ("recipe.toml", "best/recipe.toml"):
        out = tmp_path / name.partition("/")[0]
        train(trained / "runs/one" / name, out=out, quiet=True)
        again = RunFolder(out).best().read_tensors("model.safetensors")
        assert all((best[each] == again[each]).all() for each in best)


def test_an_edited_recipe_in_a_run_counts_when_the_run_resumes(trained, tmp_path, capsys):
    run = shutil.copytree(trained / "runs/one", tmp_path / "run")
    recipe = run / "recipe.toml"
    text = recipe.read_text()
    recipe.write_text(text.replace("d_ff = 24", "d_ff = 32"))
    with pytest.raises(FolderError, match=r"another recipe: model\.d_ff: 24 -> 32") as caught:
        train(run)
    assert "--init" in caught.value.hint
    recipe.write_text(text.replace("max_steps = 8", "max_steps = 12"))
    assert train(run).steps == 12
    assert "the run has 12 updates now, not 8" in capsys.readouterr().err
    assert train(run).steps == 12
    recipe.write_text(text + "\n[")
    with pytest.raises(RecipeError, match=re.escape(str(recipe))):
        train(run)


def test_the_recipe_of_a_run_before_texts_had_its_settings_is_not_taken_as_edited(trained, tmp_path):
    run = shutil.copytree(trained / "runs/one", tmp_path / "run")
    saved = json.loads((run / RESOLVED).read_text())
    (run / RESOLVED).write_text(json.dumps({name: saved[name] for name in ("recipe", "base")}))
    (run / "recipe.toml").write_text(RECIPE)
    assert train(run).steps == 8
    assert load_recipe(run).recipe.model["d_ff"] == 24


def test_a_moved_project_is_resumed_and_evaluated_by_its_run_folder(project):
    run = project / "runs/one"
    assert evaluate(model=run).examples == "20 texts"
    assert train(run, overrides=["training.max_steps=12"]).steps == 12
    assert json.loads((run / RESOLVED).read_text())["base"] == str(project), "the new place is recorded"


def test_a_run_whose_files_are_not_found_says_how_to_resume_it(project, tmp_path):
    run = shutil.move(project / "runs/one", tmp_path / "alone")
    with pytest.raises(DataError, match="no such file") as caught:
        train(run)
    assert f"regard train RECIPE.toml --out {run}" in caught.value.hint


def test_the_model_that_a_run_starts_from_is_named_relative_to_the_recipe(trained, tmp_path):
    folder = films(tmp_path / "films")
    shutil.copytree(trained / "runs/one/best", folder / "start")
    result = train(folder / "films.toml", out=folder / "run", overrides=SHORT, init=folder / "start")
    assert table(result.model / "recipe.toml")["model"]["init"] == "start"
    saved = json.loads((result.run / RESOLVED).read_text())
    saved["recipe"]["model"]["init"] = str(folder / "start")  # as before
    (result.run / RESOLVED).write_text(json.dumps(saved))
    assert train(folder / "films.toml", out=folder / "run", overrides=SHORT, init=folder / "start").steps == 8


def test_a_model_card_names_the_adapters(trained, tmp_path):
    sets = [*SHORT, "training.adapter.rank=2", "data.test.file=other.txt"]
    result = train(trained / "films.toml", out=tmp_path / "run", overrides=sets, init=trained / "runs/one")
    assert "adapters of rank 2 (LoRA), merged" in " ".join((result.model / "README.md").read_text().split())
    assert table(result.model / "recipe.toml")["training"]["adapter"] == {"rank": 2}


def test_the_schedule_of_a_run_is_that_of_its_training(trained, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(plot, "draw_schedule", lambda path, rates, title: drawn.append((len(rates), title)))
    plot.plot_schedule(trained / "runs/one", out=tmp_path / "a.svg")
    plot.plot_schedule(trained / "runs/one/recipe.toml", out=tmp_path / "b.svg")
    longer = ["training.max_steps=12"]
    plot.plot_schedule(trained / "films.toml", overrides=longer, out=tmp_path / "c.svg")
    assert [count for count, _ in drawn] == [8, 8, 12]
    assert drawn[0][1].startswith("one: ")


def test_a_run_with_other_data_says_how_to_learn_more_from_its_model(trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "copy")
    saved = json.loads((folder / "runs/one" / RESOLVED).read_text())
    (folder / "runs/one" / RESOLVED).write_text(json.dumps({**saved, "base": str(folder)}))
    with (folder / "train.txt").open("a") as file:
        file.write(texts(2, 70))
    with pytest.raises(FolderError, match="has changed since this run began") as caught:
        train(folder / "runs/one")
    assert f"--init {folder / 'runs/one'}" in caught.value.hint
