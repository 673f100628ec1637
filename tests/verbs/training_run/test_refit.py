"""The second run of `training.refit`: all examples from the start, resumed to the bit; its scores."""

import json
import shutil

import pytest

from regard.errors import FolderError, RecipeError, RunError, Stopped
from regard.verbs.evaluate import evaluate
from regard.verbs.shared.settings import load_recipe
from regard.verbs.shared.unfinished_run import unfinished
from regard.verbs.train import train
from regard.verbs.training_run.refit import refuse_second_run, stopped_in_refit
from regard.weights.checkpoint import RESOLVED, RunFolder
from tests.verbs.tasks.test_classification import RECIPE, texts

REFIT = "training.refit=true"
ALL = "data.train_on_valid=true"
WITHOUT_TEST = RECIPE.replace('[data.test]\nfile = "test.txt"', '[data.valid]\nfile = "valid.txt"')
VALID = 'data.valid={file="valid.txt", format="labelled"}'
SHORT = ("training.max_steps=12", "training.validate_every=4", "training.save_every=4")


def films(folder):
    """A recipe with its files."""
    (folder / "train.txt").write_text(texts(60))
    (folder / "valid.txt").write_text(texts(20, 100))
    (folder / "test.txt").write_text(texts(30, 200))
    path = folder / "films.toml"
    path.write_text(RECIPE)
    return path


@pytest.fixture
def recipe(tmp_path):
    return films(tmp_path)


@pytest.fixture(scope="module")
def refitted(tmp_path_factory):
    """A finished run with a second one, which no test changes."""
    folder = tmp_path_factory.mktemp("refitted")
    trained(films(folder), folder / "run", REFIT)
    return folder / "run"


def trained(recipe, out, *overrides, **options):
    return train(recipe, out=out, overrides=[*SHORT, *overrides], **options)


def weights(run):
    best = RunFolder(run).best()
    return best.read_tensors("model.safetensors"), best.read_bytes("tokenizer.json")


def same(run, other):
    (found, tokenizer), (wanted, wanted_tokenizer) = weights(run), weights(other)
    return tokenizer == wanted_tokenizer and all((found[name] == wanted[name]).all() for name in wanted)


def validations(run):
    return [record for record in RunFolder(run).metrics() if record["kind"] == "validation"]


@pytest.mark.parametrize("valid", [pytest.param((), marks=pytest.mark.nightly), (VALID,)])
def test_the_model_is_that_of_a_run_on_all_examples(recipe, tmp_path, valid):
    trained(recipe, tmp_path / "whole", ALL, *valid)
    trained(recipe, tmp_path / "once", *valid)
    result = trained(recipe, tmp_path / "run", REFIT, *valid)
    assert result.model == tmp_path / "run/best"
    assert result.steps == 12
    assert same(tmp_path / "run", tmp_path / "whole")
    assert not same(tmp_path / "run/refit", tmp_path / "once")
    assert validations(tmp_path / "run") == validations(tmp_path / "once")
    assert validations(tmp_path / "run/refit") == validations(tmp_path / "whole") == []
    scores = [RunFolder(tmp_path / name).metrics()[-1]["scores"] for name in ("run", "whole")]
    assert scores[0] == scores[1], "the test score is that of the second model"


def test_all_examples_are_read(recipe, tmp_path, capsys):
    """With a validation file the training texts are its texts too."""
    trained(recipe, tmp_path / "run", REFIT, VALID)
    output = capsys.readouterr().err
    assert "80 texts are trained on" in output
    assert "no validation" in output
    assert "3 validations" in output


def test_without_test_data_the_scores_are_those_of_the_first_run(recipe, tmp_path):
    recipe.write_text(WITHOUT_TEST)
    result = trained(recipe, tmp_path / "run", REFIT)
    best = max(validations(tmp_path / "run"), key=lambda record: record["accuracy"])
    assert result.metrics == {name: best[name] for name in ("loss", "accuracy", "macro_f1")}
    shutil.copytree(tmp_path / "run/best", tmp_path / "copy")
    for model in ("run", "copy"):
        with pytest.raises(RecipeError, match="was trained on its validation data"):
            evaluate(model=tmp_path / model)
    first = RunFolder(tmp_path / "run").latest().path
    assert evaluate(model=first).scores, "a checkpoint of the first run has not learned the validation data"
    card = (tmp_path / "run/best/README.md").read_text()
    assert "trained on the validation data too" in card


def test_the_last_weights_are_kept_and_a_moving_average_is_applied(recipe, tmp_path):
    last = trained(recipe, tmp_path / "raw", ALL)
    assert last.steps == 12
    checkpoint = RunFolder(tmp_path / "raw").latest()
    raw = checkpoint.read_tensors("model.safetensors")
    assert all((weights(tmp_path / "raw")[0][name] == raw[name]).all() for name in raw)
    trained(recipe, tmp_path / "mean", ALL, "training.moving_average=0.9")
    average = RunFolder(tmp_path / "mean").latest().read_tensors("average.safetensors")
    found = weights(tmp_path / "mean")[0]
    assert all((found[name] == average[name]).all() for name in found)


class Stop(Exception):
    """Ends a run in the middle."""


def stop_at(step, before):
    """Stops at an update of this step; `before` has an item for each such update that does not stop."""

    def stop(record):
        if record["kind"] == "train" and record["step"] == step and not (before and before.pop() == 0):
            raise Stop

    return stop


@pytest.mark.parametrize("part", [pytest.param("first", marks=pytest.mark.nightly), "second"])
def test_a_run_that_was_stopped_resumes_to_the_same_bits(recipe, tmp_path, refitted, part):
    run, times = tmp_path / "run", [0] * (part == "second")
    with pytest.raises(Stop):
        trained(recipe, run, REFIT, "training.report_every=1", on_report=stop_at(5, times))
    assert unfinished(run)
    assert ("the second run" in unfinished(run)) == (part == "second")
    assert train(run).steps == 12
    assert not unfinished(run)
    assert same(run, refitted)
    assert validations(run) == validations(refitted)
    with pytest.raises(Stop):
        train(run, overrides=["training.max_steps=16"], on_report=stop_at(14, [0] * (part == "second")))
    assert unfinished(run), "the model is that of the shorter run"


def test_a_signal_in_the_second_run_names_the_folder_that_resumes_both(recipe, tmp_path, monkeypatch):
    from regard.verbs import train as verb

    asked = []

    def stop(say):
        from contextlib import nullcontext

        asked.append(say)
        return nullcontext(lambda: 15 if len(asked) == 2 else None)

    monkeypatch.setattr(verb, "stop_signal", stop)
    with pytest.raises(Stopped) as caught:
        trained(recipe, tmp_path / "run", REFIT)
    assert caught.value.exit_code == 128 + 15
    assert caught.value.hint == f"continue with `regard train {tmp_path / 'run'}`"
    assert "the second run" in caught.value.message


def test_a_longer_run_trains_both_further(refitted, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(refitted, run)
    before = weights(run)[0]
    result = train(run, overrides=["training.max_steps=16"])
    assert result.steps == 16
    assert RunFolder(run).latest().step == RunFolder(run / "refit").latest().step == 16
    assert same(run, run / "refit")
    assert any((weights(run)[0][name] != before[name]).any() for name in before)


def test_the_second_run_has_the_measured_settings_of_the_first(recipe, tmp_path):
    run = tmp_path / "run"
    measured = {"threads.json": {"threads": 1}, "products.json": {"float32_matmul_precision": "highest"}}
    with pytest.raises(Stop):
        trained(recipe, run, REFIT, "training.report_every=1", on_report=stop_at(5, []))
    for name, setting in measured.items():
        (run / name).write_text(json.dumps({**setting, "of": "the first run"}))
    train(run)
    for name, setting in measured.items():
        assert json.loads((run / "refit" / name).read_text()) == {**setting, "of": "the first run"}
    manifest = RunFolder(run).best().manifest
    assert manifest["learned_validation"] is True
    assert manifest["step"] in (4, 8, 12)


def test_a_run_without_it_is_another_recipe(recipe, tmp_path):
    trained(recipe, tmp_path / "run")
    with pytest.raises(FolderError, match=r"training\.refit"):
        trained(recipe, tmp_path / "run", REFIT)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ((REFIT, "training.patience=2"), "training.refit and training.patience"),
        ((REFIT, "training.average_last=2"), "training.refit and training.average_last"),
        ((ALL, "training.patience=2"), "data.train_on_valid and training.patience"),
        ((ALL, "training.average_last=2"), "data.train_on_valid and training.average_last"),
        ((REFIT, ALL), "training.refit and data.train_on_valid"),
    ],
)
def test_settings_that_need_validation_are_refused(recipe, overrides, message):
    with pytest.raises(RecipeError, match=message):
        load_recipe(recipe, overrides)


@pytest.mark.parametrize("name", ["reverse", "vit-mnist", "sst-mlm", "shakespeare-char-cpu", "dates"])
def test_tasks_that_cannot_train_on_validation_data_refuse_it(name):
    from regard.verbs.recipes import recipe_path

    with pytest.raises(RecipeError, match="cannot train on its validation data"):
        load_recipe(recipe_path(name), [REFIT])


def test_a_dry_run_names_the_time_of_both(recipe, capsys):
    train(recipe, dry_run=True, overrides=[REFIT])
    assert "training.refit: then" in capsys.readouterr().err
    train(recipe, dry_run=True, overrides=[ALL])
    assert "without validation" in capsys.readouterr().err


def test_a_run_that_validates_nothing_has_no_scores_without_test_data(recipe, tmp_path):
    recipe.write_text(WITHOUT_TEST)
    assert trained(recipe, tmp_path / "run", ALL).metrics == {}
    with pytest.raises(RecipeError, match="was trained on its validation data"):
        evaluate(model=tmp_path / "run")


def test_the_second_run_is_resumed_through_the_first(refitted):
    with pytest.raises(FolderError, match="is the second run of") as caught:
        train(refitted / "refit")
    assert caught.value.hint == f"resume both with `regard train {refitted}`"


def test_a_run_without_validation_can_end_where_it_was_stopped(recipe, tmp_path):
    """Its last weights are kept also if it was made shorter meanwhile."""
    run = tmp_path / "run"
    with pytest.raises(Stop):
        trained(recipe, run, ALL, "training.report_every=1", on_report=stop_at(9, []))
    train(run, overrides=["training.max_steps=8"])
    last = RunFolder(run).latest().read_tensors("model.safetensors")
    assert all((weights(run)[0][name] == last[name]).all() for name in last)


def test_a_collapsed_second_run_leaves_the_first_model(recipe, tmp_path, monkeypatch):
    from regard.training.collapse import CollapseDetector

    found = CollapseDetector.add_validation

    def collapsed(self, step, metrics, **settings):
        return found(self, step, metrics, **settings) if metrics else "as the test says"

    monkeypatch.setattr(CollapseDetector, "add_validation", collapsed)
    with pytest.raises(RunError, match="the second run has collapsed"):
        trained(recipe, tmp_path / "run", REFIT, "training.collapse.retries=0")
    assert "learned_validation" not in RunFolder(tmp_path / "run").best().manifest
    assert validations(tmp_path / "run")


def test_a_sweep_has_no_second_runs(recipe, tmp_path, capsys):
    from regard.verbs.sweep import sweep

    sweep(recipe, ["training.seed=1,2"], out=tmp_path / "sweep", overrides=[*SHORT, REFIT])
    assert "training.refit" in capsys.readouterr().err
    assert not list((tmp_path / "sweep").glob("**/refit"))
    with pytest.raises(RecipeError, match="a sweep compares validation scores"):
        sweep(recipe, ["training.seed=1,2"], out=tmp_path / "other", overrides=[*SHORT, ALL])


TAGGED = """
name = "tags"
[task]
kind = "tagging"
[data.train]
file = "train.conllu"
[data.valid]
file = "valid.conllu"
[tokenizer]
vocab_size = 60
[model]
preset = "small"
d_model = 16
d_ff = 32
num_layers = 1
[training]
max_steps = 4
validate_every = 2
save_every = 2
"""


def test_a_tagger_learns_the_labels_of_validation_data(tmp_path):
    def sentences(*pairs):
        rows = [f"{n}\t{word}\t_\t{label}" + "\t_" * 6 for n, (word, label) in enumerate(pairs, start=1)]
        return "\n".join(rows) + "\n\n"

    (tmp_path / "train.conllu").write_text(sentences(("a", "DET"), ("dog", "NOUN")) * 20)
    (tmp_path / "valid.conllu").write_text(sentences(("a", "DET"), ("oh", "INTJ")) * 4)
    (tmp_path / "tags.toml").write_text(TAGGED)
    train(tmp_path / "tags.toml", out=tmp_path / "run", overrides=[REFIT])
    labels = [
        json.loads((tmp_path / name / "config.json").read_text())["labels"]
        for name in ("run/refit/best", "run/checkpoints/step-00000004", "run/best")
    ]
    assert labels == [["DET", "INTJ", "NOUN"], ["DET", "NOUN"], ["DET", "INTJ", "NOUN"]]


def test_the_folder_to_resume_is_quoted_for_a_shell(tmp_path):
    stopped = stopped_in_refit(
        Stopped(2, "stopped at step 3, which is saved"), RunFolder(tmp_path / "my run")
    )
    assert stopped.hint == f"continue with `regard train '{tmp_path}/my run'`"
    (tmp_path / "my run").mkdir()
    (tmp_path / "my run" / RESOLVED).touch()
    with pytest.raises(FolderError) as caught:
        refuse_second_run(tmp_path / "my run" / "refit")
    assert caught.value.hint == f"resume both with `regard train '{tmp_path}/my run'`"
