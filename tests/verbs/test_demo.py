"""The demo trains, shows dates with their alignments, and prints what to try next."""

import re
import sys

import pytest

from regard.data.synthetic import YEARS
from regard.errors import MissingExtra
from regard.verbs import demo as module
from regard.verbs.demo import demo
from regard.verbs.recipes import recipes_show


def test_a_missing_package_is_reported_before_anything_else(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "babel", None)
    with pytest.raises(MissingExtra, match="Babel") as caught:
        demo(out=tmp_path / "run")
    assert "regard[demo]" in caught.value.hint
    assert "Training" not in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.fixture
def short(tmp_path, monkeypatch):
    """The demo's recipe with fewer updates and fewer dates."""
    text = recipes_show("dates")
    for name, value in {
        "max_steps": 4,
        "validate_every": 4,
        "save_every": 4,
        "report_every": 2,
        "batch_tokens": 256,
        "d_model": 16,
        "d_ff": 16,
    }.items():
        text = re.sub(rf"(?m)^{name} = \d+", f"{name} = {value}", text)
    text = re.sub(r"(?m)^size = (\d+)", lambda found: f"size = {min(int(found[1]) // 20, 300)}", text)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "dates.toml").write_text(text + "max_length = 12\n", "utf-8")
    monkeypatch.setattr(module, "recipe_folder", lambda: tmp_path / "recipes")
    return tmp_path / "run"


def test_the_demo_shows_its_results_and_shows_them_again(short, capsys):
    first = demo(out=short, threads=1)
    output = capsys.readouterr().out
    assert re.search(r"exact match \d+\.\d %", output)
    assert len(re.findall(r" -> .*  \((right|wrong: it is [\d-]{10})\)", output)) == module.SHOWN_DATES
    suggested = re.search(rf'regard translate --model {short} ".* (\d{{4}})"', output)
    assert suggested
    assert int(suggested[1]) in YEARS, "the model cannot write other years"
    assert first.run == short
    page = short / module.PAGE
    assert f"  {page}\n" in output
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert '"beam_size":4' in text.replace(" ", ""), "a greedy answer would have no beam to show"
    for resource in ("alignment", "attention/decoder", "query/decoder"):
        assert f'"{resource}' in text, resource
    again = demo(out=short, threads=1)
    assert again == first
    assert capsys.readouterr().out == output
