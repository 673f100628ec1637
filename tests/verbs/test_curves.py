"""A run's measurements become figures in its folder."""

import pytest

from regard.cli import run as command
from regard.errors import FolderError
from regard.verbs import curves as verb
from regard.verbs.curves import LOSS_UNITS, curves, run_curves
from regard.verbs.tasks.kinds import KINDS
from regard.weights.checkpoint import RunFolder


def test_a_run_is_drawn_into_its_folder(tmp_path):
    run = RunFolder(tmp_path)
    for step in (1, 2, 3):
        run.append_metrics({"kind": "train", "step": step, "loss": 3 / step, "learning_rate": 0.1})
    run.append_metrics({"kind": "validation", "step": 3, "loss": 1.5, "bleu": 20.0})
    drawn = curves(tmp_path)
    assert drawn.curves.train_loss == [(1, 3.0), (2, 1.5), (3, 1.0)]
    assert drawn.curves.scores == {"bleu": [(3, 20.0)]}
    assert [figure.name for figure in drawn.figures] == ["curves.svg", "curves.png"]
    assert all(figure.stat().st_size > 1000 for figure in drawn.figures)


def test_what_has_no_measurements_is_named_for_what_it_is(tmp_path):
    (tmp_path / "a.txt").touch()
    for name, problem in (("", "has no measurements"), ("absent", "does not exist"), ("a.txt", "is a file")):
        with pytest.raises(FolderError, match=f"{name} {problem}"):
            curves(tmp_path / name)
    with RunFolder(tmp_path / "run").lock():
        pass
    with pytest.raises(FolderError, match="run: the run is at step 0") as caught:
        curves(tmp_path / "run")
    assert caught.value.hint == f"resume it: regard train {tmp_path / 'run'}"


def test_the_folder_of_a_sweep_names_its_runs(tmp_path):
    for name in ("lr-1", "lr-2"):
        with RunFolder(tmp_path / name).lock() as run:
            run.append_metrics({"kind": "train", "step": 1, "loss": 3.0, "learning_rate": 0.1})
    with pytest.raises(FolderError) as raised:
        curves(tmp_path)
    assert raised.value.hint == f"it has runs: lr-1, lr-2; `regard curves {tmp_path}` compares them"


@pytest.mark.parametrize(
    ("recipe", "label"),
    [
        ('name = "a"\n', "loss, nats per token"),
        ('[task]\nkind = "nodes"\n', "loss, nats per node"),
        ('[task]\nkind = "transcription"\n', "loss, nats per label"),
        ('[task]\nkind = "regression"\n', "loss, squared standard deviations"),
        ('[task]\nkind = "of tomorrow"\n', "loss, nats per prediction"),
        ("task = 3\n", "loss, nats per prediction"),
        ("no recipe", "loss, nats per prediction"),
        (None, "loss, nats per prediction"),
    ],
)
def test_the_unit_of_the_loss_is_that_of_the_task(tmp_path, capsys, recipe, label):
    run = RunFolder(tmp_path)
    run.append_metrics({"kind": "train", "step": 1, "loss": 3.0, "learning_rate": 0.1})
    if recipe is not None:
        (tmp_path / "recipe.toml").write_text(recipe)
    assert run_curves(tmp_path).loss_label == label


def test_every_kind_of_task_has_a_unit():
    assert LOSS_UNITS.keys() == KINDS.keys()


def test_the_command_names_the_unit(tmp_path, capsys):
    run = RunFolder(tmp_path)
    run.append_metrics({"kind": "train", "step": 1, "loss": 3.0, "learning_rate": 0.1})
    (tmp_path / "recipe.toml").write_text('[task]\nkind = "images"\n')
    assert command(["curves", str(tmp_path)]) == 0
    assert "loss, nats per image" in capsys.readouterr().out


def test_curves_of_a_run_that_may_only_be_read_are_printed_before_the_error(tmp_path, capsys, monkeypatch):
    RunFolder(tmp_path).append_metrics({"kind": "train", "step": 1, "loss": 3.0, "learning_rate": 0.1})

    def draw(found, path, title):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(verb, "draw_curves", draw)
    assert command(["curves", str(tmp_path)]) == 2
    printed = capsys.readouterr()
    assert "loss, nats per prediction" in printed.out
    assert f"error: cannot write {tmp_path / 'curves.svg'}: Permission denied" in printed.err
    assert f"regard plot curves {tmp_path} --out FILE.svg" in printed.err
