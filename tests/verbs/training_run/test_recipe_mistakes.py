"""Mistakes of a recipe's data and keys are named, with what to do, before the data are read."""

import pytest

from regard.errors import RecipeError, Stopped
from regard.training.settings import TrainingSettings
from regard.verbs.shared.settings import load_recipe
from regard.verbs.train import train
from regard.weights.checkpoint import RunFolder
from tests.verbs.test_train import RECIPE

FILES = """
name = "mixed"
[data.valid]
source = "a.en"
target = "a.de"
"""


@pytest.mark.parametrize(
    "train_on",
    [
        '[data.train]\nsource = "a.en"\ntarget = "a.de"\nweight = 2',
        '[data.train]\nsource = ["a.en", "b.en"]\ntarget = ["a.de", "b.de"]',
        '[data.train2]\nsource = "b.en"\ntarget = "b.de"',
    ],
    ids=["a weight", "lists of files", "a second table"],
)
def test_several_corpora_are_answered_with_how_to_name_them(tmp_path, train_on):
    (tmp_path / "mixed.toml").write_text(FILES + train_on)
    with pytest.raises(RecipeError) as error:
        load_recipe(tmp_path / "mixed.toml")
    assert "tables [[data.train]], each with a weight" in error.value.hint


def test_a_mistake_in_one_of_several_corpora_is_named_there(tmp_path):
    tables = '[[data.train]]\nsource = "a.en"\ntarget = "a.de"\n' * 2
    (tmp_path / "mixed.toml").write_text(f"{FILES}{tables}wieght = 2")
    with pytest.raises(RecipeError, match=r"unknown key data.train\[1\].wieght") as error:
        load_recipe(tmp_path / "mixed.toml")
    assert error.value.hint == "did you mean 'weight'?"


@pytest.mark.parametrize("keys", ["weights = [1, 2]", "[data.train2]"])
def test_several_corpora_of_running_text_by_other_keys_are_answered_with_tables(tmp_path, keys):
    (tmp_path / "texts.toml").write_text(
        'name = "texts"\n[task]\nkind = "language_model"\n[data.valid]\nfile = "b.txt"\n'
        f'[data.train]\nfile = "a.txt"\n{keys}'
    )
    with pytest.raises(RecipeError, match=r"unknown key data\.train") as error:
        load_recipe(tmp_path / "texts.toml")
    assert "tables [[data.train]]" in error.value.hint


def test_a_key_of_another_section_is_named_with_it_before_the_data_are_read(tmp_path):
    both = '[data.train]\nsource = "a.en"\ntarget = "a.de"\n[model]\nlearning_rate = 0.1'
    (tmp_path / "mixed.toml").write_text(FILES + both)
    with pytest.raises(RecipeError, match=r"unknown key model.learning_rate") as error:
        load_recipe(tmp_path / "mixed.toml")
    assert "training.schedule.learning_rate" in error.value.hint


def test_a_removed_key_has_its_default_and_must_exist(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(f"{RECIPE}\n[training.adapter]\nrank = 2\n")
    removed = ["training.adapter=null", "model.dropout=null", "training.schedule.warmup=null"]
    found = load_recipe(
        path, [*removed, "training.max_steps=null", "task.kind=null", "training.optimizer.options.x=null"]
    )
    assert found.recipe.training.adapter is None
    assert found.recipe.training.max_steps == TrainingSettings().max_steps
    for unknown in ("training.max_step", "model.dropuot", "trainin", "training.schedule.d_ff"):
        with pytest.raises(RecipeError, match=f"unknown key {unknown}") as error:
            load_recipe(path, [f"{unknown}=null"])
        assert error.value.hint
    with pytest.raises(RecipeError, match="name is missing"):
        load_recipe(path, ["name=null"])


def test_one_file_for_both_sides_is_a_warning(tmp_path, capsys):
    (tmp_path / "a.en").write_text("".join(f"line {i}\n" for i in range(60)))
    same = RECIPE[: RECIPE.index("[data")] + "".join(
        f'[data.{part}]\nsource = "a.en"\ntarget = "a.en"\n' for part in ("train", "valid")
    )
    rest = RECIPE[RECIPE.index("[tokenizer") :] if "[tokenizer" in RECIPE else ""
    (tmp_path / "same.toml").write_text(same + rest)
    train(tmp_path / "same.toml", out=tmp_path / "run", overrides=["training.max_steps=2"])
    warned = [line for line in capsys.readouterr().err.splitlines() if "are the same file, a.en" in line]
    assert len(warned) == 2


def test_a_stopped_run_says_what_was_not_validated_and_can_end_there(tmp_path, monkeypatch):
    (tmp_path / "small.toml").write_text(RECIPE)

    def stop_at_6(record):
        if record["kind"] == "train" and record["step"] == 6:
            stops.append(15)

    stops = []
    monkeypatch.setattr(
        "regard.verbs.train.stop_signal", lambda say: _Context(lambda: stops[0] if stops else None)
    )
    settings = ["training.report_every=1", "training.max_steps=20"]
    with pytest.raises(Stopped) as stopped:
        train(tmp_path / "small.toml", out=tmp_path / "run", overrides=settings, on_report=stop_at_6)
    assert "stopped at step 6, which is saved but not validated: the best model is that of step 4" in str(
        stopped.value
    )
    assert f"regard train {tmp_path}/run --set training.max_steps=6` validates it" in stopped.value.hint
    stops.clear()
    assert train(tmp_path / "run", overrides=["training.max_steps=6"]).steps == 6
    assert [
        each["step"] for each in RunFolder(tmp_path / "run").metrics() if each["kind"] == "validation"
    ] == [4, 6]


class _Context:
    def __init__(self, value):
        self.value = value

    def __enter__(self):
        return self.value

    def __exit__(self, *error):
        return None
