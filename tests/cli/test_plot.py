"""`regard plot`: figures as files."""

import re

import pytest

from regard.cli import run
from regard.cli.group import SHORT_HELP
from regard.cli.plot import command
from regard.verbs.recipes import recipes, recipes_show


@pytest.fixture(autouse=True)
def _with_matplotlib():
    pytest.importorskip("matplotlib", reason="matplotlib is the extra `plot`")


def drawn(capsys, path, *arguments):
    """The SVG that the command writes to `path`, which it names."""
    assert run(["plot", *map(str, arguments), "--out", str(path)]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out == f"{path}\n"
    return path.read_text("utf-8")


def test_attention_is_drawn_head_by_head_with_its_tokens(capsys, tmp_path, untrained):
    path = tmp_path / "attention.svg"
    shown = drawn(capsys, path, "attention", "1 2 3", "--model", untrained)
    assert "decoder.blocks.0.cross_attention" in shown
    assert "head 0" in shown
    assert "head 1" in shown
    name = "encoder.blocks.0.self_attention"
    alone = drawn(capsys, path, "attention", "1 2", "--model", untrained, "--attention", name, "--head", 1)
    assert "head 0" not in alone
    assert (
        drawn(capsys, path, "attention", "1 2", "--model", untrained, "--attention", name, "--head", 1)
        == alone
    )


def test_rows_of_attention_to_a_source_are_the_tokens_written(capsys, tmp_path, untrained):
    """As on the page and in an alignment: at a row stands what was written there, and not what was read."""
    given = ["attention", "1 2 3", "--model", untrained, "--target", "7 8", "--head", 0]
    shown = drawn(capsys, tmp_path / "a.svg", *given)
    assert re.findall(r">(7|8|&lt;s&gt;|&lt;/s&gt;|written|read)</text>", shown).count("&lt;/s&gt;") == 2
    assert ">written<" in shown
    assert "&lt;s&gt;" not in shown


def test_attention_of_a_continued_text_says_that_it_has_a_continuation(capsys, tmp_path, decoder_folder):
    path, given = tmp_path / "a.svg", ["plot", "attention", "To be", "--model", str(decoder_folder())]
    for target, continued in ((None, True), ("", False), (", or", True)):
        more = [] if target is None else ["--target", target]
        assert run([*given, *more, "--out", str(path)]) == 0
        noted = capsys.readouterr().err
        assert ("the text and its continuation, " in noted) is continued
        assert ("--target '' draws the text alone" in noted) is (target is None)
        assert ("and its continuation" in path.read_text("utf-8")) is continued


def test_an_alignment_is_drawn_of_the_answer_or_of_a_forced_one(capsys, tmp_path, untrained):
    shown = drawn(capsys, tmp_path / "a.svg", "alignment", "1 2 3", "--model", untrained, "--target", "7 8")
    for word in ("written", "source", ">7<", ">8<", ">1<"):
        assert word in shown


@pytest.mark.parametrize(
    ("scheme", "word"),
    [
        ("sinusoidal", "waves"),
        pytest.param("rotary", "waves", marks=pytest.mark.nightly),
        ("alibi", "head 3"),
    ],
)
def test_positions_are_drawn_of_a_scheme(capsys, tmp_path, scheme, word):
    shown = drawn(capsys, tmp_path / "p.svg", "positions", "--scheme", scheme, "--length", 8, "--d-model", 16)
    assert f"{scheme} positions" in shown
    assert word in shown


def test_the_scheme_alibi_is_the_papers_and_a_model_has_its_own(capsys, tmp_path, encoder_folder):
    shown = drawn(capsys, tmp_path / "p.svg", "positions", "--scheme", "alibi", "--length", 8)
    assert "alibi positions, causal" in shown
    assert "earlier keys" in shown
    own = drawn(
        capsys, tmp_path / "p.svg", "positions", "--model", encoder_folder("pooled", positions="alibi")
    )
    assert "alibi positions, of an encoder" in own
    assert "in both directions" in own


def test_positions_are_drawn_of_a_model(capsys, tmp_path, untrained):
    assert "sinusoidal positions" in drawn(capsys, tmp_path / "p.svg", "positions", "--model", untrained)


def test_schedules_are_drawn_of_recipes(capsys, tmp_path):
    assert "reverse: " in drawn(capsys, tmp_path / "s.svg", "schedule", "reverse")
    assert {"reverse"} <= {each.name for each in recipes()}


def test_noam_is_drawn_for_the_width_of_the_model_that_a_recipe_starts_from(capsys, tmp_path, untrained):
    text = recipes_show("reverse")
    begin, end = text.index("[model]"), text.index("[batches]")
    noam = "training.schedule.kind=noam"

    def curve(model):
        path = tmp_path / "noam.toml"
        path.write_text(f"{text[:begin]}[model]\n{model}\n{text[end:]}")
        return drawn(capsys, tmp_path / "noam.svg", "schedule", path, "--set", noam)

    started = curve(f"init = '{untrained}'")
    assert started == curve("d_model = 16")
    assert started != curve("d_model = 512")


def test_mistakes_are_one_line_and_a_hint(capsys, tmp_path, untrained, encoder_folder):
    out = ["--out", str(tmp_path / "x.svg")]
    model = ["--model", str(untrained)]
    for arguments, message in (
        (["attention", "1", *model, "--attention", "nowhere", *out], "no attention 'nowhere'"),
        (["attention", "1", *model, "--head", "9", *out], "no head 9"),
        (["attention", "1", *model, "--out", str(tmp_path / "x.jpg")], "cannot be written as .jpg"),
        (["alignment", "a film", "--model", str(encoder_folder("pooled")), *out], "no attention to a source"),
        (["schedule", "nowhere.toml", *out], "no such recipe"),
        (["curves", str(tmp_path), *out], "no measurements"),
        (["atention", "1"], "no command `regard plot atention`"),
    ):
        assert run(["plot", *arguments]) == 2
        error, hint = capsys.readouterr().err.splitlines()[-2:]
        assert message in error
        assert len(hint) > len("hint: ")


def test_the_help_of_plot_begins_with_all_that_it_draws():

    for line in (command.help.splitlines()[0], SHORT_HELP["plot"]):
        assert [name for name in command.commands if name not in line] == []
