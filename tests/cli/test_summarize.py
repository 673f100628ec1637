"""`regard summarize`, and `--prefix`, which `regard translate` takes too."""

import json

import pytest

from regard.cli import run
from regard.verbs.summarize import summarize


@pytest.fixture(scope="module")
def model(their_folder):
    marks = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    sizes = {"d_model": 16, "num_heads": 2, "d_kv": 8, "d_ff": 24, "num_layers": 1, **marks}
    folder, *_ = their_folder("T5ForConditionalGeneration", "T5Config", sizes, pieces="bytes")
    table = json.loads((folder / "config.json").read_text("utf-8"))
    table["task_specific_params"] = {
        "summarization": {"prefix": "summarize: "},
        "translation_en_to_de": {"prefix": "to German: "},
        "translation_en_to_fr": {"prefix": "to French: "},
    }
    (folder / "config.json").write_text(json.dumps(table), "utf-8")
    return str(folder)


SHORT = ["--beam-size", "1", "--max-new-tokens", "4", "--json"]


def test_a_text_is_one_whatever_lines_it_has_and_of_a_file_each_line_is_one(capsys, model, tmp_path):
    expected = summarize("a good film", model=model, beam_size=1, max_new_tokens=4)
    assert run(["summarize", "a good\nfilm", "--model", model, *SHORT]) == 0
    assert json.loads(capsys.readouterr().out)["summary"] == expected
    (tmp_path / "texts").write_text("a good film\n\n", "utf-8")
    arguments = ["--input", str(tmp_path / "texts"), "--output", str(tmp_path / "out"), "--model", model]
    assert run(["summarize", *arguments, *SHORT]) == 0
    records = [json.loads(line) for line in (tmp_path / "out").read_text("utf-8").splitlines()]
    assert [record["summary"] for record in records] == [expected, ""]


def test_another_prefix_may_be_given(capsys, model):
    assert run(["translate", "a film", "--model", model, "--prefix", "to German: ", *SHORT]) == 0
    german = json.loads(capsys.readouterr().out)["hypotheses"]
    assert run(["summarize", "a film", "--model", model, "--prefix", "to German: ", *SHORT]) == 0
    assert json.loads(capsys.readouterr().out)["hypotheses"] == german


def test_mistakes_are_one_error_and_one_hint(capsys, model, tmp_path):
    asked = {
        "both TEXT and --input": ["summarize", "x", "--input", "y", "--model", model],
        "several prefixes": ["translate", "x", "--model", model],
        "no such file": ["summarize", "--input", str(tmp_path / "nothing"), "--model", model],
        ">>fra<< is not a language": ["translate", "x", "--prefix", ">>fra<<", "--model", model],
        "summarize needs a model": ["summarize", "x"],
    }
    for words, arguments in asked.items():
        assert run(arguments) == 2
        shown = capsys.readouterr()
        error, hint = shown.err.splitlines()
        assert shown.out == ""
        assert words in error
        assert hint.startswith("hint: ")
