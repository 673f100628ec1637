"""Sweeps of trainings: each run is that of its settings, done once; what is stopped resumes."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.cli import run
from regard.errors import ConfigError, DataError, Interrupted, RecipeError, RunError, UserError
from regard.recipe import apply_overrides
from regard.verbs import sweep as module
from regard.verbs.recipes import recipe_path
from regard.verbs.shared.settings import load_recipe
from regard.verbs.sweep import sweep
from regard.verbs.train import TrainResult, train
from regard.verbs.training_run.model_check import refuse_impossible_model
from regard.verbs.training_run.setting_combinations import split_values, written_values
from regard.weights.checkpoint import RunFolder, checkpoint_digest
from tests.verbs.test_train import RECIPE

AXES = ["training.seed=1,2", "training.schedule.learning_rate=1e-3,2e-2"]
FAST = {"threads": 1, "quiet": True}
SHORT = {"overrides": ["training.max_steps=2"], **FAST}


def write_recipe(folder):
    path = folder / "small.toml"
    path.write_text(RECIPE.replace("max_steps = 8", "max_steps = 4"))
    return path


@pytest.fixture
def recipe(tmp_path):
    return write_recipe(tmp_path)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep whose runs are trained here, and its folder."""
    folder = tmp_path_factory.mktemp("swept")
    return sweep(write_recipe(folder), AXES, out=folder / "out", **SHORT), folder / "out"


def test_values_in_python_are_a_dict_of_lists():
    given = {"training.seed": [1, np.int64(2)], "x": (0.1, True, "focal", "a,b", "", "1", [1, "b"])}
    written = written_values(given)
    assert written[0] == "training.seed=1,2"
    settings = [apply_overrides({}, [f"x={each}"])["x"] for each in split_values(written[1][2:])]
    assert settings == [*given["x"]]
    assert written_values(["a=1,2"]) == ["a=1,2"]
    with pytest.raises(RecipeError, match=r"the values of training\.seed must be a list, not 1"):
        sweep("reverse", {"training.seed": 1})
    with pytest.raises(UserError, match="a dict of names and values is not a text, nor several"):
        sweep("reverse", {"training.seed": [1]}, overrides={"training.max_steps": 1})


@pytest.fixture
def trained(monkeypatch):
    """The names of the runs that were trained; a test may let some of them fail."""
    return watched(monkeypatch, train)


@pytest.fixture
def copied(monkeypatch, swept):
    """The same for tests to which it does not matter what a run has learned: each is a copy of one."""

    def copy(recipe, *, out, **settings):
        shutil.copytree(swept[1] / "seed=1,learning_rate=1e-3", out)
        return TrainResult(run=out, model=out / "best", steps=2, metrics={"BLEU": 1.0})

    return watched(monkeypatch, copy)


def watched(monkeypatch, do):
    seen, fails = [], {}

    def train_watched(recipe, *, out, **settings):
        seen.append(out.name)
        if error := fails.get(out.name):
            raise error
        return do(recipe, out=out, **settings)

    monkeypatch.setattr(module, "train", train_watched)
    return seen, fails


def digests(folder, names):
    return [checkpoint_digest(RunFolder(folder / name).latest()) for name in names]


def test_each_run_is_that_of_its_settings(recipe, tmp_path, swept):
    found, folder = swept
    assert found.missing == ()
    assert {each.task for each in found.done} == {
        f"seed={seed},learning_rate={rate}" for seed in (1, 2) for rate in ("1e-3", "2e-2")
    }
    losses = [each.scores["validation loss"] for each in found.done]
    assert losses == sorted(losses)
    sets = [*SHORT["overrides"], "training.seed=2", "training.schedule.learning_rate=2e-2"]
    train(recipe, out=tmp_path / "alone", overrides=sets, **FAST)
    assert digests(tmp_path, ["alone"]) == digests(folder, ["seed=2,learning_rate=2e-2"])


def test_a_sweep_that_was_stopped_resumes(recipe, tmp_path, copied):
    seen, fails = copied
    fails["seed=2"] = Interrupted(15, "stopped")
    with pytest.raises(Interrupted):
        sweep(recipe, ["training.seed=1,2,3"], out=tmp_path / "out", **FAST)
    assert seen == ["seed=1", "seed=2"]
    progress = regard.jobs_status(str(tmp_path / "out"))
    assert progress.missing == ("seed=2", "seed=3")
    fails.clear()
    found = sweep(recipe, ["training.seed=1,2,3"], out=tmp_path / "out", **FAST)
    assert (found.missing, seen[2:]) == ((), ["seed=2", "seed=3"])
    assert sweep(recipe, ["training.seed=1,2,3"], out=tmp_path / "out", **FAST) == found
    assert len(seen) == 4


def test_a_run_that_fails_is_named_and_the_others_are_done(recipe, tmp_path, copied):
    seen, fails = copied
    fails["seed=1"] = RunError("the loss is not finite", "a smaller learning rate")
    with pytest.raises(RunError, match=r"1 of 2 runs failed, the first is seed=1: the loss is not finite"):
        sweep(recipe, ["training.seed=1,2"], out=tmp_path / "out", **FAST)
    progress = regard.jobs_status(str(tmp_path / "out"))
    assert (progress.missing, seen) == (("seed=1",), ["seed=1", "seed=2"])


def test_shards_divide_the_runs(recipe, tmp_path, copied):
    seen, _ = copied
    first = sweep(recipe, ["training.seed=1,2,3"], out=tmp_path / "out", shard="1/2", **FAST)
    assert (seen, first.missing) == (["seed=1", "seed=3"], ("seed=2",))
    assert sweep(recipe, ["training.seed=1,2,3"], out=tmp_path / "out", shard="2/2", **FAST).missing == ()
    with pytest.raises(
        DataError, match=r"is the output of another job: recipe: training: max_steps was 4, and"
    ):
        sweep(
            recipe, ["training.seed=1,2,3"], out=tmp_path / "out", overrides=["training.max_steps=6"], **FAST
        )
    assert len(seen) == 3


def test_an_engine_trains_the_same_runs(recipe, tmp_path, engine, swept, trained):
    seen, fails = trained
    fails["seed=1,learning_rate=2e-2"] = RunError("the loss is not finite", "a smaller learning rate")
    records = []
    arguments = {"out": tmp_path, "on": "ray", **SHORT}
    with pytest.raises(
        RunError, match=r"1 of 4 runs failed, the first is seed=1,learning_rate=2e-2: the loss"
    ):
        sweep(recipe, AXES, processes=2, done=records.append, **arguments)
    assert (engine["processes"], engine["cpus"]) == (2, 1)
    assert len(records) == 3
    fails.clear()
    found = sweep(recipe, AXES, **arguments)
    assert (found.missing, len(seen)) == ((), 4 + 1)
    assert digests(tmp_path, found.tasks) == digests(swept[1], found.tasks)


def test_an_engine_continues_where_values_came_in_another_order(recipe, tmp_path, engine, copied):
    seen, fails = copied
    fails["seed=2"] = RunError("the loss is not finite", "a smaller learning rate")
    with pytest.raises(RunError, match="1 of 3 runs failed"):
        sweep(recipe, ["training.seed=1,2,3"], out=tmp_path / "out", on="ray", **FAST)
    fails.clear()
    found = sweep(recipe, ["training.seed=3,2,1"], out=tmp_path / "out", on="ray", **FAST)
    assert (found.missing, seen[3:]) == ((), ["seed=2"])
    with pytest.raises(UserError, match="workers are for one machine"):
        sweep(recipe, ["training.seed=1"], out=tmp_path / "out", on="ray", workers=2, **FAST)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ([], "a sweep has no setting"),
        (["training.seed"], "not of the form section.key=value,value"),
        (["=1,2"], "not of the form"),
        (["training.seed=1,,2"], "not of the form"),
        (["training.seed="], "not of the form"),
        (["training.seed=,"], "not of the form"),
        (["training.seed=,1"], "training.seed must be an integer"),
        (['training.loss=,"",focal'], "a value is given twice"),
        (["training.seed=1", "training.seed=2"], "training.seed is given twice"),
        (["training.seed=1, 1"], "a value is given twice"),
        (["training.schedule.learning_rate=1e-3,0.001"], "are the same run"),
        (["training.best_metric=bleu,loss"], "ranked by bleu and by loss, which do not compare"),
        (["training.sed=1,2"], "unknown key training.sed"),
        (["training.seed=1,x"], "training.seed must be an integer"),
        (
            ["training.seed=" + ",".join(map(str, range(200))), "training.max_steps=" + "1," * 99 + "2"],
            "twice",
        ),
        (["training.max_steps=1,2"], "training.max_steps is in --set and in --sweep"),
        (["x.y=" + ",".join("ab" * 200 + str(number) for number in range(2))], "is not a name for one run"),
        (["x.y=a b,a_b"], "is not a name for one run"),
    ],
)
def test_mistakes_are_named_before_the_first_run(recipe, tmp_path, trained, values, named):
    with pytest.raises(RecipeError) as error:
        sweep(recipe, values, out=tmp_path / "out", overrides=["training.max_steps=4"], **FAST)
    assert named in error.value.message
    assert (trained[0], (tmp_path / "out").exists()) == ([], False)


def test_torchrun_trains_no_sweep(recipe, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(UserError, match="torchrun trains one run"):
        sweep(recipe, AXES)


def test_the_command_prints_the_best_run_first(capsys, recipe, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["train", str(recipe), "--sweep", "training.schedule.learning_rate=1e-9,3e-2", "--threads", "1"]
    assert run(command) == 0
    printed = capsys.readouterr().out
    rows = printed.splitlines()[-3:]
    assert rows[0].startswith("run")
    assert "validation loss" in rows[0]
    assert [row.split()[0] for row in rows[1:]] == ["learning_rate=3e-2", "learning_rate=1e-9"]
    assert run(["jobs", "status", "runs/small-sweep"]) == 0
    assert capsys.readouterr().out.splitlines() == rows
    for wrong, named in (
        ([*command, "--dry-run"], "--dry-run is for one run"),
        ([*command, "--resume"], "--resume is for one run"),
        (["train", str(recipe), "--shard", "1/2"], "--shard, --on and --processes are for --sweep"),
        ([*command, "--shard", "0/2"], "is not I/N"),
    ):
        assert run(wrong) == 2
        assert named in capsys.readouterr().err


def test_a_combination_that_cannot_be_trained_is_refused_before_one_is_trained(recipe, tmp_path, trained):
    seen, _ = trained
    with pytest.raises(ConfigError, match=r"num_heads=3: d_model") as raised:
        sweep(recipe, ["model.num_heads=2,3"], out=tmp_path / "out", **FAST)
    assert "num_heads" in raised.value.message
    assert not seen
    assert not (tmp_path / "out").exists()
    with pytest.raises(RecipeError, match=r"loss=focl: training\.loss"):
        sweep(recipe, ["training.loss=focl"], out=tmp_path / "out", **FAST)


@pytest.mark.parametrize("name", sorted(path.stem for path in Path("recipes").glob("*.toml")))
def test_the_model_of_a_recipe_that_comes_with_regard_is_not_refused(name):
    refuse_impossible_model(load_recipe(recipe_path(name)).recipe)


@pytest.mark.parametrize(
    "again",
    [["model.d_ff=32", "training.seed=1"], ["training.seed=1", "model.d_ff=0x20"]],
    ids=["order", "spelling"],
)
def test_a_run_that_is_there_under_another_name_is_not_trained_again(recipe, tmp_path, copied, again):
    seen, _ = copied
    sweep(recipe, ["training.seed=1", "model.d_ff=32"], out=tmp_path / "out", **FAST)
    before = [*seen]
    with pytest.raises(DataError, match=r"already, as seed=1,d_ff=32"):
        sweep(recipe, again, out=tmp_path / "out", **FAST)
    assert seen == before


def test_values_are_added_to_a_sweep(recipe, tmp_path, copied):
    seen, _ = copied
    sweep(recipe, ["training.seed=1,2"], out=tmp_path / "out", **FAST)
    found = sweep(recipe, ["training.seed=3,1"], out=tmp_path / "out", **FAST)
    assert seen == ["seed=1", "seed=2", "seed=3"]
    assert (found.tasks, found.missing) == (("seed=1", "seed=2", "seed=3"), ())
    assert sweep(recipe, ["training.seed=2"], out=tmp_path / "out", **FAST) == found


def test_shards_of_added_values_do_each_run_once(recipe, tmp_path, copied):
    seen, _ = copied
    sweep(recipe, ["training.seed=1"], out=tmp_path / "out", **FAST)
    for shard in ("1/2", "2/2"):
        sweep(recipe, ["training.seed=2,3,4"], out=tmp_path / "out", shard=shard, **FAST)
    assert sorted(seen) == ["seed=1", "seed=2", "seed=3", "seed=4"]


def test_a_sweep_of_other_settings_is_refused_in_words(recipe, tmp_path, copied):
    sweep(recipe, ["training.seed=1"], out=tmp_path / "out", **FAST)
    message = r"has a sweep of training\.seed, and this one is of training\.label_smoothing"
    with pytest.raises(DataError, match=message) as raised:
        sweep(recipe, ["training.label_smoothing=0.1"], out=tmp_path / "out", **FAST)
    assert "--out" in raised.value.hint


def test_an_engine_adds_no_values_and_says_which_differ(recipe, tmp_path, engine, copied):
    sweep(recipe, ["training.seed=1,2"], out=tmp_path / "out", **FAST)
    with pytest.raises(DataError, match="another job: seed=2 only in the folder and seed=3 only in this one"):
        sweep(recipe, ["training.seed=1,3"], out=tmp_path / "out", on="ray", **FAST)


@pytest.mark.parametrize(("bleu", "shown"), [(4.0, {"bleu", "chrf++"}), (6.0, {"bleu"})])
def test_the_table_of_a_sweep_has_the_score_that_orders_it(bleu, shown):
    found = module._scores({"loss": 3.0, "bleu": bleu, "chrf++": 20.0}, {}, "bleu", "bleu")
    assert found.keys() == {f"validation {name}" for name in shown}


@pytest.mark.parametrize(("axis", "is_ranked"), [("tokenizer.vocab_size=40,60", False), (AXES[0], True)])
@pytest.mark.usefixtures("copied")
def test_losses_of_different_tokenisers_rank_no_run(recipe, tmp_path, axis, is_ranked, capsys, monkeypatch):
    monkeypatch.setattr(module, "best_validation", lambda run: {"loss": 3.0})
    done = sweep(recipe, [axis], out=tmp_path / "out", **FAST).done
    assert [each.rank is not None for each in done] == [is_ranked] * 2
    assert ("do not compare" in capsys.readouterr().err) is not is_ranked
