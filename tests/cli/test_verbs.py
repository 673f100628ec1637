"""What each verb prints: results to stdout, in a form for people and one for programs."""

import json

import pytest

from regard.cli import run
from regard.verbs.recipes import recipes_show
from regard.weights.checkpoint import RunFolder
from regard.weights.model_folder import model_files_of
from regard.weights.verified_folder import VerifiedFolder


@pytest.fixture
def printed(capsys, monkeypatch, tmp_path):
    """What `regard` with these arguments prints to stdout, in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, code: int = 0) -> str:
        capsys.readouterr()
        assert run([str(argument) for argument in arguments]) == code, capsys.readouterr().err
        return capsys.readouterr().out

    return call


@pytest.fixture
def texts(tmp_path):
    contents = {
        "src": [f"{i} {i + 1} {i + 2}" for i in range(7)] * 5,
        "ref": [f"{i + 2} {i + 1} {i}" for i in range(7)] * 5,
        "out": [f"{i + 2} {i} {i}" for i in range(7)] * 5,
    }
    for name, lines in contents.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    return tmp_path


def test_new_prints_the_recipe_and_the_next_commands(printed, texts, monkeypatch):
    monkeypatch.setattr("regard.verbs.proposals.training_speed.TIMED_SECONDS", 0.02)
    output = printed("new", "src", "ref", "--out", "my.toml")
    assert output.startswith("my.toml: 30 pairs to train, 5 held out\n")
    assert "regard train my.toml --dry-run" in output
    assert (texts / "my.toml").is_file()


def test_evaluate_prints_scores_with_signatures(printed, texts, untrained):
    arguments = ["evaluate", "--model", untrained, "--src", "src", "--ref", "ref", "--ref", "out"]
    output = printed(*arguments, "--tokenize", "none")
    first = [line.split()[0] for line in output.splitlines()[1:]]
    assert first == ["BLEU", "chrF2++", "chrF2", "TER", "BLEU:"]
    assert "nrefs:2" in output
    assert "tok:none" in output
    found = json.loads(printed(*arguments, "--json", "--beam-size", "1"))
    assert found["sentences"] == 35
    assert found["beam_size"] == 1
    assert {"name", "value", "low", "high", "signature"} <= set(found["scores"][0])
    assert "by_length" not in found


def test_evaluate_prints_scores_by_length(printed, texts, untrained):
    arguments = ["evaluate", "--model", untrained, "--src", "src", "--ref", "ref", "--by-length"]
    *_, head, row = printed(*arguments).splitlines()
    assert head.split("  ") == ["words of the source", "sentences", "BLEU"]
    assert row.split()[:4] == ["0", "to", "5", "35"]
    assert float(row.split()[4]) >= 0
    [found] = json.loads(printed(*arguments, "--json"))["by_length"]
    assert found == {"shortest": 0, "longest": 5, "sentences": 35, "bleu": found["bleu"]}


def test_score_prints_a_line_for_each_pair(printed, texts, untrained):
    arguments = ["score", "--model", untrained, "--src", "src", "--ref", "ref"]
    lines = printed(*arguments).splitlines()
    records = [json.loads(line) for line in printed(*arguments, "--json").splitlines()]
    assert len(lines) == len(records) == 35
    for line, record in zip(lines, records, strict=True):
        log_prob, tokens, perplexity = line.split("\t")
        assert float(log_prob) == pytest.approx(record["log_prob"], abs=1e-4)
        assert int(tokens) == len(record["token_log_probs"]) == 4
        assert float(perplexity) == pytest.approx(record["perplexity"], rel=1e-5)
        assert sum(record["token_log_probs"]) == pytest.approx(record["log_prob"])


def test_compare_prints_a_table_for_each_metric(printed, texts):
    output = printed("compare", "--no-labels", "--ref", "ref", "ref", "out")
    assert output.count("baseline") == 4
    found = json.loads(printed("compare", "--no-labels", "--ref", "ref", "ref", "out", "--json"))
    assert [each["name"] for each in found] == ["BLEU", "chrF2++", "chrF2", "TER"]
    assert found[1]["systems"][1]["p_value"] < 0.05


def test_average_and_curves_of_a_run(printed, untrained, tmp_path):
    folder = VerifiedFolder.open(untrained)
    model = {name: folder.read_tensors(name) for name in ["model.safetensors"]}
    run_folder = RunFolder(tmp_path / "run")
    for step in (1, 2):
        run_folder.save(step, {**model_files_of(folder), **model, "state.json": b"{}"})
        run_folder.append_metrics({"kind": "train", "step": step, "loss": 3.0 / step, "learning_rate": 0.1})
    assert printed("average", "run", "--last", 2, "--out", "mean") == "mean\n"
    assert printed("translate", "1 2", "--model", "mean") == printed("translate", "1 2", "--model", untrained)
    output = printed("curves", "run")
    assert "loss, nats per prediction" in output
    assert "run/curves.svg" in output
    printed("average", "run", "--last", 3, "--out", "mean", code=2)


def test_recipes_are_listed_and_shown_verbatim(printed):
    output = printed("recipes")
    assert "tatoeba-en-de" in output
    assert printed("recipes", "show", "reverse") == recipes_show("reverse")
    printed("recipes", "show", "revers", code=2)


def test_data_sets_are_listed_shown_and_checked(printed, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert "multi30k_tok" in printed("data", "list")
    output = printed("data", "show", "scan")
    assert "licence  BSD" in output
    assert "missing" in output
    assert printed("data", "check")
    assert "missing" in printed("data", "check", "scan", code=2)
    printed("data", "check", "skan", code=2)


def test_the_doctor_prints_its_report(printed):
    output = printed("doctor")
    assert "torch" in output
    assert " thread" in output
