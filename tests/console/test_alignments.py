"""Attention weights: shaded or coloured cells, within the width of the terminal."""

from regard import console
from tests.console.conftest import uncoloured

SOURCE, TARGET = ["▁a", "b", "c"], ["X", "YY"]
WEIGHTS = [[1.0, 0.0, 0.0], [0.01, 0.19, 0.8]]


def test_an_alignment_off_a_terminal_is_shaded(plain, capsys):
    console.alignment(SOURCE, TARGET, WEIGHTS)
    assert capsys.readouterr().out.splitlines() == [
        "   ▁",
        "   a b c",
        " X ██",
        "YY   ░░██",
    ]


def test_an_alignment_on_a_terminal_is_coloured_by_weight(terminal, capsys):
    console.alignment(SOURCE, TARGET, WEIGHTS)
    out = capsys.readouterr().out
    assert "48;2;255;140;0" in out  # all of it
    assert "48;2;" in out.splitlines()[3]
    assert "█" not in out


def test_an_alignment_without_colours_is_shaded_on_a_terminal(colourless, capsys):
    console.alignment(SOURCE, TARGET, WEIGHTS)
    out = capsys.readouterr().out
    assert "█" in out
    assert "48;" not in out


def test_a_wide_alignment_is_continued_below(terminal, capsys):
    source = [chr(ord("a") + i % 26) for i in range(60)]
    console.alignment(source, ["X"], [[1 / 60] * 60])
    lines = uncoloured(capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(lines[0::2]).replace(" ", "") == "".join(source)


def test_an_empty_alignment_is_nothing(plain, capsys):
    console.alignment([], [], [])
    assert capsys.readouterr().out == ""
