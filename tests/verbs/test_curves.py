"""A run's measurements become figures in its folder."""

import pytest

from regard.errors import FolderError
from regard.verbs.curves import curves
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


def test_a_folder_without_measurements_is_refused(tmp_path):
    for nothing in (tmp_path, tmp_path / "absent"):
        with pytest.raises(FolderError, match="holds no measurements"):
            curves(nothing)
