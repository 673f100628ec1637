"""The runs of a folder side by side: what differs, which is best, and what each has so far."""

import json
import math

import pytest

import regard
from regard.cli import run as command
from regard.errors import FolderError, UserError
from regard.jobs.tasks import TaskRecord, progress_of
from regard.verbs.compared_runs import compare_runs, names_of_runs, run_table
from regard.verbs.run_ranking import ranks_of
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


def made(folder, name, training, *, validation=None, test=None, tokenizer="", **sections):
    """A run folder without a model, as one has that was stopped early."""
    (folder / name / "checkpoints").mkdir(parents=True)
    recipe = {"name": "a", "training": training, **sections}
    (folder / name / RESOLVED).write_text(json.dumps({"recipe": recipe}))
    with RunFolder(folder / name).lock() as run:
        run.append_metrics({"kind": "train", "step": 5, "loss": 3.0, "learning_rate": 0.1})
        if validation is not None:
            run.append_metrics({"kind": "validation", "step": 5, **validation})
            run.write_best({"tokenizer.json": tokenizer.encode()}, step=5, is_average=False)
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


def test_runs_are_ordered_as_the_models_within_one_are(tmp_path, capsys):
    runs = {"early": (3.99, 10.5), "late": (2.30, 16.1), "good": (5.1, 9.0), "nothing": (0.0, 0.0)}
    for name, (bleu, chrf) in runs.items():
        validation = {"loss": 4.0, "bleu": bleu, "chrf++": chrf}
        made(tmp_path, name, {"best_metric": "bleu"}, validation=validation)
    assert [each.run for each in compare_runs(tmp_path).runs] == ["good", "late", "early", "nothing"]
    assert command(["curves", str(tmp_path)]) == 0
    assert "by validation bleu, then chrf++" in capsys.readouterr().out


@pytest.mark.parametrize(("metric", "order"), [("-cost", ["b", "a"]), ("+cost", ["a", "b"])])
def test_a_score_of_ones_own_orders_runs_by_its_sign(tmp_path, metric, order):
    for name, cost in (("a", 9.0), ("b", 7.0)):
        made(tmp_path, name, {"best_metric": metric}, validation={"loss": 4.0, "cost": cost})
    found = compare_runs(tmp_path)
    assert [each.run for each in found.runs] == order
    assert "validation cost" in run_table(found)[0]
    assert found.order == "the best first, by validation cost"


LM = {"task": {"kind": "language_model"}}


def test_language_models_are_ordered_by_bits_per_character_which_no_tokeniser_changes(tmp_path, capsys):
    for name, loss, bits in (("characters", 2.99, 4.314), ("bpe", 5.2, 3.238)):
        validation = {"loss": loss, "bits_per_character": bits}
        made(tmp_path, name, {}, validation=validation, tokenizer=name, **LM)
    found = compare_runs(tmp_path)
    assert (found.metric, [each.run for each in found.runs]) == ("bits_per_character", ["bpe", "characters"])
    assert command(["curves", str(tmp_path)]) == 0
    assert "the best first, by validation bits_per_character" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("scores", "tokenizers", "metric", "order"),
    [
        ({}, "aa", "loss", ["two", "one"]),
        ({}, "ab", None, ["one", "two"]),  # the losses are of different tokens
        ({"bleu": 20.0}, "ab", "bleu", ["two", "one"]),
        ({"bleu": 20.0}, "aa", "loss", ["two", "one"]),
    ],
)
def test_losses_per_token_are_compared_if_the_tokens_are_the_same(
    tmp_path, scores, tokenizers, metric, order
):
    for name, loss, tokenizer in zip(("one", "two"), (3.0, 2.0), tokenizers, strict=True):
        made(tmp_path, name, {}, validation={"loss": loss, **scores}, tokenizer=tokenizer)
    found = compare_runs(tmp_path)
    assert (found.metric, [each.run for each in found.runs]) == (metric, order)
    assert command(["curves", str(tmp_path)]) == 0


def test_each_kind_of_task_has_a_table_of_its_own(tmp_path, capsys):
    tasks = {"a": "classification", "b": "classification", "c": "tagging"}
    for name, kind in tasks.items():
        task = {"task": {"kind": kind, f"of_{kind}": name}}
        made(tmp_path, name, {"best_metric": "accuracy"}, validation={"accuracy": 50.0}, **task)
    assert command(["curves", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    first, second = printed.split("tagging: the best first")
    assert first.startswith("classification: the best first")
    assert "of_classification" in first
    assert "of_" not in second
    assert command(["curves", str(tmp_path), "--json"]) == 0
    assert [len(each["runs"]) for each in json.loads(capsys.readouterr().out)] == [2, 1]
    assert [each.run for each in compare_runs(tmp_path, task="tagging").runs] == ["c"]
    with pytest.raises(UserError, match=r"classification \(2\), tagging \(1\)"):
        compare_runs(tmp_path)
    with pytest.raises(FolderError, match="no runs of 'images'"):
        compare_runs(tmp_path, task="images")


def test_an_older_run_has_chrf_under_its_present_name(tmp_path):
    made(tmp_path, "old", {}, validation={"loss": 2.0, "chrf": 30.0})
    (tmp_path / "old" / "recipe.toml").write_text("")
    assert compare_runs(tmp_path).runs[0].validation == {"loss": 2.0, "chrf++": 30.0}


def test_the_time_of_a_run_has_that_of_its_second_run_too(tmp_path):
    for name, seconds in (("a", 60.0), ("a/refit", 30.0), ("b", 50.0)):
        made(tmp_path, name, {"seed": 1})
        with RunFolder(tmp_path / name).lock() as run:
            run.save(5, {"state.json": json.dumps({"seconds": seconds}).encode()})
    found = {each.run: each.seconds for each in compare_runs(tmp_path).runs}
    assert found == {"a": 90.0, "b": 50.0}


def test_runs_that_differ_in_their_seed_alone_have_a_mean_and_a_deviation(tmp_path, capsys):
    for rate, seed, bleu in ((1, 1, 20.0), (1, 2, 22.0), (2, 1, 30.0), (2, 2, 34.0), (3, 1, 9.0)):
        training = {"best_metric": "bleu", "seed": seed, "patience": rate}
        made(
            tmp_path, f"{rate}-{seed}", training, validation={"loss": 2.0, "bleu": bleu}, test={"BLEU": bleu}
        )
    found = compare_runs(tmp_path)
    assert [each.runs for each in found.groups] == [("2-2", "2-1"), ("1-2", "1-1")]
    best = found.groups[0]
    assert best.settings == {"training.patience": 2}
    assert (best.validation["bleu"].value, best.test["BLEU"].value) == (32.0, 32.0)
    assert best.validation["bleu"].deviation == pytest.approx(math.sqrt(2 * 2.0**2 / (2 - 1)))
    assert command(["curves", str(tmp_path)]) == 0
    table = capsys.readouterr().out.partition("standard deviation")[2].splitlines()
    assert table[2].split() == ["2", "2", "32", "±", "2.8", "2", "±", "0", "32", "±", "2.8"]
    assert command(["curves", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"][0]["validation"]["bleu"]["runs"] == 2


def test_copies_of_a_run_are_not_runs_of_several_seeds(tmp_path, capsys):
    for name, training in (("a", {}), ("copy", {"seed": 1}), ("c", {"seed": 2})):
        made(tmp_path, name, training, validation={"loss": 2.0 + training.get("seed", 1)})
    assert command(["curves", str(tmp_path / "a"), str(tmp_path / "copy")]) == 0
    printed = capsys.readouterr().out
    assert str(tmp_path / "copy") in printed, "several runs are compared by a table"
    assert "standard deviation" not in printed
    [group] = compare_runs(tmp_path).groups
    assert (group.runs, group.validation["loss"].runs) == (("a", "c"), 2)
    assert command(["curves", str(tmp_path / "a"), str(tmp_path / "none")]) == 2
    assert "none has no runs" in capsys.readouterr().err


@pytest.mark.parametrize("losses", [{"a": 2.0, "b": 2.0}, {"a": 3.0, "b": 2.0}, {"b": 2.0, "a": 3.0}])
def test_both_tables_of_a_sweep_order_ties_by_loss_and_then_by_name(tmp_path, losses):
    records = []
    for name, loss in losses.items():
        validation = {"loss": loss, "bleu": 0.0}
        made(tmp_path, name, {"best_metric": "bleu"}, validation=validation)
        ranks = ranks_of(validation, "bleu")
        records.append(TaskRecord(task=name, seconds=1.0, scores={}, result={}, **ranks))
    for given in (records, records[::-1]):
        done = progress_of("train", [*losses], given).done
        assert [each.task for each in done] == [each.run for each in compare_runs(tmp_path).runs]


def test_several_runs_are_drawn_in_one_figure_with_a_legend_of_what_differs(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    for seed in (1, 2):
        made(tmp_path / "runs", f"run-{seed}", {"seed": seed}, validation={"loss": 2.0, "bleu": 1.0})
    runs = [str(tmp_path / "runs" / f"run-{seed}") for seed in (1, 2)]
    for given in (runs, [str(tmp_path / "runs")]):
        assert command(["plot", "curves", *given, "--out", str(tmp_path / "all.svg")]) == 0
        words = (tmp_path / "all.svg").read_text("utf-8")
        assert all(label in words for label in (">seed=1<", ">seed=2<", ">bleu, %<", ">learning rate<"))
    assert command(["plot", "curves", runs[0], runs[0], "--out", str(tmp_path / "all.svg")]) == 2
    assert "run-1 is named twice" in capsys.readouterr().err


def test_runs_that_differ_in_nothing_are_named_by_their_folders(tmp_path):
    for name in ("a", "b"):
        made(tmp_path, name, {"seed": 1})
    assert [*names_of_runs([tmp_path / "a", tmp_path / "b"])] == ["a", "b"]


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
