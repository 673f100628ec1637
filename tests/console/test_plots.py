"""Plots: curves keep their shape, and series differ with and without colour."""

import re

import pytest

from regard import console
from tests.console.conftest import uncoloured

ESCAPE = "\x1b["


def test_a_falling_curve_falls(plain, capsys):
    console.plot("loss", {"train": [(step, 10.0 - step) for step in range(10)]}, height=5)
    head, *rows, foot = capsys.readouterr().out.splitlines()
    assert head == "loss   · train"
    assert rows[0].startswith("10 |⠉")
    assert rows[-1].startswith(" 1 |")
    starts = [len(row) - len(row.split("|")[1].lstrip()) for row in rows]
    assert starts == sorted(starts)
    assert foot.split() == ["step", "0", "9"]


def test_on_a_logarithmic_axis_an_exponential_is_a_straight_line(plain, capsys):
    powers = [(step, 2.0 ** (step / 16)) for step in range(0, 33, 4)]
    console.plot("", {"y": powers}, log=True)
    on_log = capsys.readouterr().out.splitlines()[1:-2]
    console.plot("", {"y": [(step, step / 8) for step, _ in powers]})
    straight = capsys.readouterr().out.splitlines()[1:-2]
    assert [row.split("|")[1] for row in on_log] == [row.split("|")[1] for row in straight]


def test_series_differ_without_colour(plain, capsys):
    console.plot("scores", {"chrf": [(1, 10.0), (2, 20.0)], "bleu": [(1, 1.0), (2, 15.0)]})
    shown = capsys.readouterr().out
    assert "o bleu" in shown
    assert len(re.findall("o(?=[⠀-⣿ ]|$)", shown.split("\n", 1)[1], re.MULTILINE)) == 2


@pytest.mark.parametrize(
    ("value", "label"), [(999.4, "999"), (999.8, "1,000"), (-999.8, "-1,000"), (0.0123, "0.0123")]
)
def test_a_value_near_a_thousand_has_no_exponent(plain, capsys, value, label):
    console.plot("perplexity", {"train": [(1, value)]})
    assert capsys.readouterr().out.splitlines()[1].startswith(f"{label} |")


@pytest.mark.parametrize("points", [[(5, 1.5)], [(1, 0.0), (2, 0.0)], [(1, 3.0), (1, 3.0)]])
def test_one_value_can_be_plotted(plain, capsys, points):
    console.plot("loss", {"train": points, "none": []}, log=True)
    shown = capsys.readouterr().out
    assert "none" not in shown
    assert re.search("[⠁-⣿]", shown)


def test_without_values_nothing_is_plotted(plain, capsys):
    console.plot("loss", {"train": []})
    assert capsys.readouterr().out == ""


def test_a_plot_on_a_terminal_is_coloured_and_fits(terminal, capsys):
    console.plot("loss", {"train": [(1, 3.0), (9, 1.0)], "validation": [(1, 4.0), (9, 2.0)]})
    out = capsys.readouterr().out
    assert ESCAPE in out
    assert max(map(len, uncoloured(out).splitlines())) <= 80
