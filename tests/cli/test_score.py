"""`regard score` of a language model: lines, columns, pipes and jobs have the same scores."""

import csv
import io
import json
import subprocess
import sys

import pytest

from regard.cli import run
from regard.verbs.score_texts import TextScorer

TEXTS = ["To be, or not", "", "that is\nthe question"]


@pytest.fixture
def model(decoder_folder):
    return decoder_folder()


@pytest.fixture
def table(tmp_path):
    """JSON Lines with a text in each record."""
    file = tmp_path / "in.jsonl"
    file.write_text("".join(json.dumps({"n": n, "text": text}) + "\n" for n, text in enumerate(TEXTS)))
    return file


@pytest.fixture
def regard(capsys):
    """What a command prints to stdout, and to stderr."""

    def call(*arguments, code=0):
        capsys.readouterr()
        found = run([str(each) for each in arguments])
        output = capsys.readouterr()
        assert found == code, output.err
        return output

    return call


def columns_of(text):
    """The numbers of each line."""
    return [[float(each or "nan") for each in line.split("\t")] for line in text.splitlines()]


def test_lines_and_a_pipe_have_three_columns_each_and_json_the_tokens(regard, model, tmp_path):
    lines = TEXTS[:2]
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in lines))
    printed = regard("score", "--model", model, "--input", tmp_path / "in.txt")
    scores = [each.score for each in TextScorer(model)(lines)]
    for numbers, score in zip(columns_of(printed.out), scores, strict=True):
        assert numbers == pytest.approx([score.log_prob, score.num_tokens, score.perplexity], rel=1e-4)
    assert f"2 texts, {sum(score.num_tokens for score in scores)} predicted tokens, perplexity" in printed.err
    records = regard("score", "--model", model, "--input", tmp_path / "in.txt", "--json").out.splitlines()
    for record, score in zip(map(json.loads, records), scores, strict=True):
        assert record["token_log_probs"] == pytest.approx(score.token_log_probs, abs=1e-5)
        assert record["perplexity"] == pytest.approx(score.perplexity, rel=1e-5)
    command = [sys.executable, "-m", "regard", "score", "--model", str(model)]
    piped = subprocess.run(
        command, input="".join(f"{text}\n" for text in lines), capture_output=True, text=True
    )
    assert piped.stdout == printed.out


def test_a_table_gets_three_columns_and_its_texts_keep_their_line_feeds(regard, model, table, tmp_path):
    arguments = ("score", "--model", model, "--input", table, "--column", "text")
    noted = regard(*arguments, "--output", tmp_path / "out.jsonl").err
    expected = [each.score for each in TextScorer(model)(TEXTS)]
    assert f"3 texts, {sum(each.num_tokens for each in expected)} predicted tokens, perplexity" in noted
    records = [*map(json.loads, (tmp_path / "out.jsonl").read_text().splitlines())]
    assert [each["log_prob"] for each in records] == pytest.approx(
        [each.log_prob for each in expected], abs=1e-5
    )
    assert [each["num_tokens"] for each in records] == [each.num_tokens for each in expected]
    assert [each["text"] for each in records] == TEXTS
    regard(*arguments, "--output", tmp_path / "out.csv", "--into", "lm")
    [header, *rows] = csv.reader(io.StringIO((tmp_path / "out.csv").read_text()))
    assert header == ["n", "text", "lm", "lm_num_tokens", "lm_perplexity"]
    assert [float(row[2]) for row in rows] == pytest.approx([each.log_prob for each in expected], abs=1e-5)
    printed = columns_of(regard(*arguments).out)
    assert [numbers[1] for numbers in printed] == [each.num_tokens for each in expected]


def test_a_job_has_the_scores_of_a_table(regard, model, table, tmp_path):
    where = ("--input", table, "--column", "text", "--output", tmp_path / "out", "--shard", "1/1")
    regard("score", "--model", model, *where)
    regard("jobs", "merge", tmp_path / "out", "--to", tmp_path / "merged.jsonl")
    found = [json.loads(line)["log_prob"] for line in (tmp_path / "merged.jsonl").read_text().splitlines()]
    assert found == pytest.approx([each.score.log_prob for each in TextScorer(model)(TEXTS)], abs=1e-5)


def test_a_completion_counts_alone(regard, model, tmp_path):
    (tmp_path / "pairs.tsv").write_text("To be\t or not\nthat\t is\n")
    printed = regard("score", "--model", model, "--data", tmp_path / "pairs.tsv")
    expected = TextScorer(model).completions([("To be", " or not"), ("that", " is")])
    for numbers, one in zip(columns_of(printed.out), expected, strict=True):
        assert numbers[:2] == pytest.approx([one.score.log_prob, one.score.num_tokens], abs=1e-4)


def test_a_table_of_completions_gets_their_scores(regard, model, tmp_path):
    pairs = [("To be", " or not"), ("that", " is\nthe")]
    records = [{"completion": two, "n": 1, "prompt": one} for one, two in pairs]
    file, out = tmp_path / "pairs.jsonl", tmp_path / "out.jsonl"
    file.write_text("".join(json.dumps(each) + "\n" for each in records))
    expected = [each.score for each in TextScorer(model).completions(pairs)]
    for columns in ((), ("--columns", "prompt,completion")):
        noted = regard("score", "--model", model, "--data", file, *columns, "--output", out).err
        assert f"2 pairs, {sum(each.num_tokens for each in expected)} predicted tokens, perplexity" in noted
        found = [*map(json.loads, out.read_text().splitlines())]
        assert [each["log_prob"] for each in found] == pytest.approx([each.log_prob for each in expected])
        assert [{name: each[name] for name in records[0]} for each in found] == records
    regard("score", "--model", model, "--data", file, "--output", tmp_path / "out.csv", "--into", "lm")
    [header, *_] = csv.reader(io.StringIO((tmp_path / "out.csv").read_text()))
    assert header == ["completion", "n", "prompt", "lm", "lm_num_tokens", "lm_perplexity"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--input", "a"), "--input is for --shard and --on, and for texts of a language model"),
        (
            ("--model", "M", "--input", "a", "--output", "b"),
            "--output is for --shard and --on, and for a table",
        ),
        (("--model", "M", "--input", "in.csv"), "--column"),
        (
            ("--model", "M", "--src", "a", "--ref", "b", "--output", "c.csv"),
            "--output is the table of --data",
        ),
        (("--model", "M", "--data", "a.csv", "--output", "b.txt"), "b.txt is not written as a table"),
        (("--model", "M", "--data", "a.csv", "--output", "b.csv", "--json"), "without --json"),
        (("--model", "M", "--src", "a"), "--ref is missing"),
        (("--model", "M", "--column", "a"), "--column names a column of --input"),
    ],
)
def test_half_a_command_is_named(regard, model, arguments, error):
    arguments = [str(model) if each == "M" else each for each in arguments]
    assert error in regard("score", *arguments, code=2).err.replace("\n  ", " ")
