"""Metrics become curves, and curves a figure."""

import builtins
import re

import pytest

from regard.errors import MissingExtra, UserError
from regard.inspection.curves import Curves, draw_curves, read_curves

RECORDS = [
    {"kind": "train", "step": 50, "epoch": 0, "loss": 9.0, "learning_rate": 1e-4},
    {"kind": "train", "step": 100, "epoch": 0, "loss": 3, "learning_rate": 2e-4},
    {"kind": "validation", "step": 100, "loss": 4.0, "bleu": 12.5, "exact_match": 0.0},
    {"kind": "skipped", "step": 120, "lines": [1, 2]},
    {"kind": "train", "step": 150, "epoch": 1, "loss": None, "learning_rate": 3e-4},
    {"kind": "validation", "step": 150, "loss": 2.0, "bleu": None, "exact_match": 50.0},
    {"kind": "test", "scores": {"BLEU": 30.0}},
]


def test_records_become_curves_without_what_is_not_finite():
    assert read_curves(RECORDS) == Curves(
        train_loss=[(50, 9.0), (100, 3.0)],
        validation_loss=[(100, 4.0), (150, 2.0)],
        scores={"bleu": [(100, 12.5)], "exact_match": [(100, 0.0), (150, 50.0)]},
        learning_rate=[(50, 1e-4), (100, 2e-4), (150, 3e-4)],
    )


def test_losses_and_scores_are_named_with_their_units():
    assert Curves().loss_label == "loss, nats per prediction"
    assert read_curves(RECORDS, loss_unit="nats per word").loss_label == "loss, nats per word"
    assert [*read_curves(RECORDS).score_panels] == ["score, %"]


def test_scores_of_one_scale_share_an_axis_and_others_have_their_own():
    names = ("accuracy", "perplexity", "macro_f1", "bits_per_character", "bits_per_byte", "of_tomorrow")
    panels = Curves(scores={name: [(1, 2.0)] for name in names}).score_panels
    assert {label: [*series] for label, series in panels.items()} == {
        "score, %": ["accuracy", "macro_f1"],
        "perplexity": ["perplexity"],
        "bits": ["bits_per_character", "bits_per_byte"],
        "of tomorrow": ["of_tomorrow"],
    }


def test_a_line_that_another_covers_is_visible(tmp_path):
    """Of two equal scores, the upper line has gaps and another colour."""
    pytest.importorskip("matplotlib", reason="matplotlib is the extra `plot`")
    same = [(1, 6.0), (2, 5.0)]
    draw_curves(Curves(scores={"bits_per_character": same, "bits_per_byte": same}), tmp_path / "a.svg")
    svg = (tmp_path / "a.svg").read_text("utf-8")
    below, above = dict.fromkeys(
        re.findall(r'style="fill: none; (stroke-dash[^"]*)?stroke: (#\w{6}); stroke-width: 1.6', svg)
    )
    assert (bool(below[0]), bool(above[0])) == (False, True)
    assert below[1] != above[1]


def test_a_figure_holds_its_words_and_is_the_same_again(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is the extra `plot`")
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    for path in (first, second):
        draw_curves(read_curves(RECORDS, loss_unit="nats per token"), path, title="dates & more")
    assert first.read_bytes() == second.read_bytes()
    svg = first.read_text("utf-8")
    for word in (
        "dates &amp; more",
        "loss, nats per token",
        "validation  2",
        "exact match  50",
        "learning rate",
    ):
        assert word in svg


def test_a_figure_is_written_as_png(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is the extra `plot`")
    draw_curves(read_curves(RECORDS[:1]), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("loss", [0.0, -1.0, 1.7])
def test_a_loss_in_a_narrow_range_is_plotted(tmp_path, loss):
    pytest.importorskip("matplotlib", reason="matplotlib is the extra `plot`")
    draw_curves(Curves(train_loss=[(1, 2.0), (2, loss)]), tmp_path / "a.svg")
    assert "loss" in (tmp_path / "a.svg").read_text("utf-8")


def test_a_figure_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(UserError, match="nothing was measured"):
        draw_curves(Curves(), tmp_path / "a.svg")
    with pytest.raises(UserError, match="gif") as caught:
        draw_curves(read_curves(RECORDS), tmp_path / "a.gif")
    assert ".svg" in caught.value.hint


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    real = builtins.__import__

    def absent(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtra, match="matplotlib") as caught:
        draw_curves(read_curves(RECORDS), tmp_path / "a.svg")
    assert "regard[plot]" in caught.value.hint
