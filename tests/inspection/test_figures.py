"""Figures: what the system says of a file names the file."""

import errno

import pytest

from regard.inspection.plots import draw_schedule


def test_a_full_disk_names_the_figure(tmp_path, monkeypatch):
    figure = pytest.importorskip("matplotlib.figure").Figure

    def full(*given, **named):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(figure, "savefig", full)
    with pytest.raises(OSError, match="No space left") as caught:
        draw_schedule(tmp_path / "a.svg", [1.0, 2.0])
    assert caught.value.filename == str(tmp_path / "a.svg")
