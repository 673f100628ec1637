"""The runs of a folder side by side: what differs, which is best, and what each has so far."""

import json

import pytest

import regard
from regard.cli import run as command
from regard.errors import FolderError
from regard.verbs.compared_runs import compare_runs, run_table
from regard.verbs.sweep import sweep
from regard.weights.checkpoint import RESOLVED, RunFolder
from tests.verbs.test_train import RECIPE


@pytest.fixture
def swept(tmp_path):
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE.replace("max_steps = 8", "max_steps = 4"))
    axes = ["training.schedule.learning_rate=1e-3,2e-2"]
    return sweep(recipe, axes, out=tmp_path / "out", threads=1, quiet=True), tmp_path / "out"


def test_the_runs_of_a_sweep_are_compared_by_the_score_that_chose_their_models(swept, capsys):
    progress, folder = swept
    found = regard.compare_runs(folder)
    assert [each.run for each in found.runs] == [record.task for record in progress.done]
    assert (found.metric, found.settings) == ("loss", ("training.schedule.learning_rate",))
    for each, record in zip(found.runs, progress.done, strict=True):
        assert each.validation["loss"] == record.scores["validation loss"]
        assert each.run == f"learning_rate={_written(each.settings['training.schedule.learning_rate'])}"
        assert each.steps == 4
        assert each.seconds is not None
        assert 0 < each.seconds < record.seconds
        tests = {name.removeprefix("test ") for name in record.scores if name.startswith("test ")}
        assert each.test.keys() == tests
    capsys.readouterr()
    assert command(["curves", str(folder)]) == 0
    printed = capsys.readouterr().out
    columns, rows = run_table(found)
    assert columns[:3] == ["run", "training.schedule.learning_rate", "steps"]
    shown = [line.split() for line in printed.splitlines()]
    assert all(" ".join(row).split() in shown for row in rows)
    assert command(["curves", str(folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["run"] == found.runs[0].run


def _written(rate):
    return {0.001: "1e-3", 0.02: "2e-2"}[rate]


def made(folder, name, training, *, validation=None, test=None):
    """A run folder without a model, as one has that was stopped early."""
    (folder / name / "checkpoints").mkdir(parents=True)
    (folder / name / RESOLVED).write_text(json.dumps({"recipe": {"name": "a", "training": training}}))
    with RunFolder(folder / name).lock() as run:
        run.append_metrics({"kind": "train", "step": 5, "loss": 3.0, "learning_rate": 0.1})
        if validation is not None:
            run.append_metrics({"kind": "validation", "step": 5, **validation})
            run.write_best({"config.json": b"{}"}, step=5, is_average=False)
        if test is not None:
            run.append_metrics({"kind": "test", "scores": test})


def test_a_higher_score_is_better_where_it_is_and_a_run_without_one_is_last(tmp_path):
    for name, bleu in (("low", 10.0), ("high", 20.0), ("none", None)):
        scores = None if bleu is None else {"loss": 2.0, "bleu": bleu}
        test = {"BLEU": 19.0} if name == "high" else None
        made(tmp_path, name, {"best_metric": "bleu", "seed": len(name)}, validation=scores, test=test)
    found = compare_runs(tmp_path)
    assert [each.run for each in found.runs] == ["high", "low", "none"]
    assert found.settings == ("training.seed",)
    columns, rows = run_table(found)
    assert columns == [
        "run", "training.seed", "steps", "validation bleu", "validation loss", "test BLEU", "minutes",
    ]  # fmt: skip
    assert rows == [
        ["high", "4", "5", "20", "2", "19", ""],
        ["low", "3", "5", "10", "2", "", ""],
        ["none", "4", "5", "", "", "", ""],
    ]


def test_of_equal_scores_the_lower_loss_is_better(tmp_path):
    for name, loss in (("a", 3.2), ("b", 2.7)):
        made(tmp_path, name, {"best_metric": "bleu"}, validation={"loss": loss, "bleu": 0.0})
    assert [each.run for each in compare_runs(tmp_path).runs] == ["b", "a"]


def test_the_time_of_a_run_has_that_of_its_second_run_too(tmp_path):
    for name, seconds in (("a", 60.0), ("a/refit", 30.0), ("b", 50.0)):
        made(tmp_path, name, {"seed": 1})
        with RunFolder(tmp_path / name).lock() as run:
            run.save(5, {"state.json": json.dumps({"seconds": seconds}).encode()})
    found = {each.run: each.seconds for each in compare_runs(tmp_path).runs}
    assert found == {"a": 90.0, "b": 50.0}


def test_runs_with_different_metrics_are_compared_by_their_loss(tmp_path):
    made(tmp_path, "a", {"best_metric": "bleu"}, validation={"loss": 3.0, "bleu": 20.0})
    made(tmp_path, "b", {}, validation={"loss": 2.0, "bleu": 10.0})
    found = compare_runs(tmp_path)
    assert (found.metric, [each.run for each in found.runs]) == ("loss", ["b", "a"])
    assert [each.settings for each in found.runs] == [
        {"training.best_metric": None},
        {"training.best_metric": "bleu"},
    ]


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(FolderError, match="has no runs"):
        compare_runs(tmp_path)


def test_the_curves_of_one_run_are_printed_as_json(tmp_path, capsys):
    made(tmp_path, "run", {})
    assert command(["curves", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["train_loss"] == [[5, 3.0]]
