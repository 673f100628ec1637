"""Commands with `--shard`, and `regard jobs`: the output is that of the plain command; mistakes are named."""

import gzip
import json
import re

import pytest

from regard.cli import run
from regard.verbs.jobs import jobs_status, jobs_verify
from regard.verbs.shards import embed_shard, generate_shard, score_shard, translate_shard

TABLE = ("--shard", "1/1", "--input", __file__, "--output", "nowhere")
LINES = ["Where is the station?", "", "Thank you. See you tomorrow!", "I have 3 cats.", "Good morning.", "Hi"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_text("".join(f"{line}\n" for line in LINES[:4]))
    with gzip.open(tmp_path / "in" / "b.gz", "wt") as file:
        file.write("\n".join(LINES[4:]))
    (tmp_path / "whole.txt").write_text("\n".join(LINES))
    return tmp_path


def regard(*arguments):
    return run([str(each) for each in arguments])


def sharded(folder, command, *arguments, shards=2):
    """Run all shards of a command, merge, and give the merged lines."""
    where = ("--input", f"{folder}/in/*", "--output", folder / "out")
    for shard in range(1, shards + 1):
        assert regard(command, *where, "--shard", f"{shard}/{shards}", *arguments) == 0
    assert regard("jobs", "verify", folder / "out") == 0
    assert regard("jobs", "merge", folder / "out", "--to", folder / "merged") == 0
    return (folder / "merged").read_text().split("\n")[:-1]


@pytest.mark.parametrize(
    "form",
    [(), pytest.param(("--json",), marks=pytest.mark.nightly), ("--n-best", "2")],
    ids=["text", "json", "ranked"],
)
def test_translations_are_those_of_one_file(capsys, folder, form):
    found = sharded(folder, "translate", "--threads", "1", *form)
    arguments = ("--input", folder / "whole.txt", "--output", folder / "whole.de", "--threads", "1", *form)
    assert regard("translate", *arguments) == 0
    assert found == (folder / "whole.de").read_text().split("\n")[:-1]


def test_continuations_and_vectors_are_those_of_one_file(capsys, folder, decoder_folder, encoder_folder):
    writer, encoder = decoder_folder("bytes"), encoder_folder("classification", ("a", "b"))
    found = sharded(folder, "generate", "--model", writer, "--json", "--temperature", "0")
    capsys.readouterr()
    arguments = ("--model", writer, "--input", folder / "whole.txt", "--json", "--temperature", "0")
    assert regard("generate", *arguments) == 0
    assert found == capsys.readouterr().out.split("\n")[:-1]
    for name in ("out", "merged"):
        (folder / name).rename(folder / f"old-{name}")
    found = sharded(folder, "embed", "--model", encoder)
    capsys.readouterr()
    assert regard("embed", "--model", encoder, "--input", folder / "whole.txt") == 0
    assert found == capsys.readouterr().out.split("\n")[:-1]


def test_the_python_call_continues_what_the_command_began(capsys, folder):
    where = (f"{folder}/in/*", folder / "out")
    assert regard("translate", "--input", where[0], "--output", where[1], "--shard", "2/2") == 0
    status = jobs_status(str(folder / "out"))
    assert (status.done, status.parts, status.missing) == (1, 2, (0,))
    assert jobs_verify(str(folder / "out")) == ["part 0 is missing"]
    report = translate_shard(*where, shard="1/1")
    assert (report.parts, report.done_before, report.lines) == (2, 1, 4)
    assert jobs_verify(str(folder / "out")) == []
    record = json.loads((folder / "out" / "parts" / "00000000.json").read_text())
    assert (record["lines"], record["failed"], record["engine"]["device"]) == (4, [], "cpu")


def test_all_of_a_job_in_this_process(capsys, folder):
    assert regard("translate", "--input", f"{folder}/in/*", "--output", folder / "out", "--on", "local") == 0
    err = capsys.readouterr().err
    assert "part 1: 2 lines" in err
    assert "2 of 2 parts" in err
    assert "0:00:00 left" in err
    assert "--on local: 2 parts are done; 6 lines now" in err
    assert jobs_verify(str(folder / "out")) == []


def test_the_status_names_missing_parts_and_lines_that_failed(capsys, folder):
    (folder / "in" / "a.txt").write_bytes(b"Hi\n\xff\n")
    where = ("--input", f"{folder}/in/*", "--output", folder / "out")
    assert regard("translate", *where, "--shard", "1/2") == 0
    err = capsys.readouterr().err
    assert "part 0: 2 lines" in err
    assert "1 line failed: `regard jobs status" in err
    assert regard("jobs", "status", folder / "out") == 0
    out = capsys.readouterr().out
    assert "1 of 2 parts" in out
    assert "missing part: 1 (1 of 2)" in out
    assert "a.txt, line 2 of its part: " in out
    assert regard("jobs", "merge", folder / "out", "--to", folder / "merged") == 2
    assert regard("jobs", "verify", folder / "out") == 2
    output, error = capsys.readouterr()
    assert "part 1 is missing" in output
    assert "error: 1 thing is wrong with" in error
    assert "with --shard 1/1 for all that are missing" in error
    assert "record" not in error, "a missing part has none"


def test_the_status_of_part_0_alone_missing_is_not_read_as_nothing_missing(capsys, folder):
    where = ("--input", f"{folder}/in/*", "--output", folder / "out")
    assert regard("translate", *where, "--shard", "2/2") == 0
    assert "shard 2/2: 1 part is done; 2 lines now" in capsys.readouterr().err
    assert regard("jobs", "status", folder / "out") == 0
    out = capsys.readouterr().out
    assert "missing part: 0 (1 of 2)" in out
    assert re.search(r"about 0:0\d:\d\d of one process left", out), "minutes and seconds, not tenths of hours"
    assert regard("translate", *where, "--shard", "1/1") == 0
    assert regard("jobs", "status", folder / "out") == 0
    out = capsys.readouterr().out
    assert "2 of 2 parts" in out
    assert "left" not in out, "nothing is left of a job that is done"
    assert "missing" not in out


def test_the_status_lists_several_missing_parts(capsys, folder):
    (folder / "in" / "c.txt").write_text("Hi\n")
    where = ("--input", f"{folder}/in/*", "--output", folder / "out")
    assert regard("translate", *where, "--shard", "3/3") == 0
    assert "1 line, " in capsys.readouterr().err
    assert regard("jobs", "status", folder / "out") == 0
    out = capsys.readouterr().out
    assert "missing parts: 0, 1 (2 of 3)" in out
    assert "1 line, " in out


def test_an_empty_input_is_named(capsys, folder):
    (folder / "in" / "empty.jsonl").touch()
    where = (
        "--input",
        f"{folder}/in/*.jsonl",
        "--output",
        folder / "out",
        "--shard",
        "1/1",
        "--column",
        "text",
    )
    assert regard("translate", *where) == 0
    assert "empty input: " in capsys.readouterr().err


def test_a_part_may_be_a_fraction_of_a_megabyte(folder):
    where = ("--input", f"{folder}/in/*", "--output", folder / "out")
    assert regard("translate", *where, "--shard", "1/1", "--part-megabytes", "0.05") == 0
    plan = json.loads((folder / "out" / "plan.json").read_text("utf-8"))
    assert plan["part_bytes"] == round(0.05 * 2**20)


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("--shard", "3/2"), "shard = '3/2' is not I/N"),
        (("--shard", "x"), "shard = 'x' is not I/N"),
        (("--shard", "1/1", "--part-megabytes", "0"), "--part-megabytes is 0.0, but must be at least 0.001"),
        (("--shard", "1/1", "--part-megabytes", "nan"), "--part-megabytes is nan, but must be at least"),
        (("--shard", "1/1", "--part-megabytes", "20000"), "must be at most 10,000"),
        (("--shard", "1/1", "Hello"), "--shard answers files, not a text"),
        (("--shard", "1/1", "--beam-size", "2"), "beam_size was None, and is 2"),
        (("--shard", "1/1", "--json"), "format was 'text', and is 'json'"),
    ],
)
def test_mistakes_are_named(capsys, folder, arguments, error):
    where = ("--input", f"{folder}/in/a.txt", "--output", folder / "out")
    if "beam" in error or "format" in error:
        assert regard("translate", *where, "--shard", "1/1") == 0
    given = () if "Hello" in arguments else where
    assert regard("translate", *given, *arguments) == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "arguments", "error"),
    [
        ("translate", ("--shard", "1/1", "--input", "a"), "--shard needs --output"),
        ("translate", ("--shard", "1/1", "--output", "a"), "--shard needs --input"),
        ("translate", ("--input", "s3://bucket/a"), "an address needs --shard or --on"),
        ("translate", ("--on", "ray", "--input", "a"), "--on needs --output"),
        ("translate", ("--on", "ray", "Hello"), "--on answers files, not a text"),
        ("translate", ("--on", "dask", "--input", "a", "--output", "b"), "on = 'dask' is not an engine"),
        ("translate", ("--processes", "2", "Hello"), "--processes is for a cluster"),
        ("translate", ("--part-megabytes", "3", "Hello"), "--part-megabytes is for --shard and --on"),
        (
            "embed",
            ("--model", "M", "--on", "ray", "--shard", "1/2", "--input", "a", "--output", "b"),
            "both a shard",
        ),
        ("generate", ("--model", "M", "--output", "a"), "--output is for --shard"),
        ("generate", ("--model", "M", "--output", "a", "--input", "b", "--shard", "1/1"), "give --json"),
        ("embed", ("--model", "M", "--output", "a"), "--output is for --shard"),
        (
            "embed",
            ("--model", "M", "--output", "a", "--input", "b", "--shard", "1/1", "--similar-to", "c"),
            "--similar-to compares all lines",
        ),
        (
            "translate",
            ("--shard", "1/1", "--input", "/", "--output", "a"),
            "'//*' are the files of this folder",
        ),
        ("translate", ("--shard", "1/1", "--input", __file__, "--output", __file__), "is a file, no folder"),
        (
            "score",
            ("--shard", "1/1", "--src", "a", "--input", "b", "--output", "c"),
            "leave out --src, --ref, --data",
        ),
        ("score", ("--input", "a"), "--input is for --shard and --on"),
        ("score", ("--src", "a", "--column", "x"), "--data FILE --columns"),
        ("score", ("--src", "a"), "--ref is missing"),
        ("score", ("--shard", "1/1", "--input", "a"), "--shard needs --output"),
        (
            "tag",
            ("--model", "M", "--shard", "1/1", "--conllu", "--input", "a", "--output", "b"),
            "not CoNLL-U",
        ),
        ("fill", ("--model", "M", "--output", "b"), "--output is for --shard"),
        ("classify", ("--model", "M", "--input", "s3://b/a"), "an address needs --shard or --on"),
        ("translate", ("Hello", "--column", "x"), "--column names a column of --input"),
        ("translate", ("Hello", "--into", "x"), "--into is for --shard and --on"),
        ("translate", (*TABLE, "--into", "x"), "into names a column of tables"),
        ("translate", (*TABLE, "--column", "x"), "test_jobs.py has no columns"),
        ("translate", (*TABLE, "--column", "x", "--n-best", "2"), "a row has one cell"),
        ("score", (*TABLE, "--column", "x"), "score reads 2 columns"),
        ("jobs", ("status", "nowhere"), "nowhere does not exist"),
        ("jobs", ("merge", "nowhere", "--to", "x"), "nowhere does not exist"),
    ],
)
def test_half_a_job_is_named(capsys, decoder_folder, command, arguments, error):
    model = str(decoder_folder("bytes"))
    assert regard(command, *(model if each == "M" else each for each in arguments)) == 2
    assert error in capsys.readouterr().err


def test_python_calls_of_the_other_verbs(folder, decoder_folder, encoder_folder):
    settings = {"shard": "1/1", "as_json": True}
    places = (f"{folder}/in/*", folder / "out")
    assert generate_shard(*places, model=decoder_folder("bytes"), **settings).lines == len(LINES)
    other = (places[0], folder / "other")
    encoder = encoder_folder("classification", ("a", "b"))
    assert embed_shard(*other, model=encoder, **settings).lines == len(LINES)


@pytest.mark.parametrize("form", [(), ("--json",), ("--top", "2")], ids=["text", "json", "ranked"])
def test_classes_are_those_of_one_file(capsys, folder, encoder_folder, form):
    model = encoder_folder("classification", ("a", "b"))
    capsys.readouterr()
    found = sharded(folder, "classify", "--model", model, *form)
    capsys.readouterr()
    assert regard("classify", "--model", model, "--input", folder / "whole.txt", *form) == 0
    assert found == capsys.readouterr().out.split("\n")[:-1]


@pytest.mark.parametrize("form", [(), ("--json",), ("--words",)], ids=["text", "json", "words"])
def test_labels_of_words_are_those_of_one_file(capsys, folder, encoder_folder, form):
    model = encoder_folder("tokens", ("A", "B"))
    found = sharded(folder, "tag", "--model", model, *form)
    capsys.readouterr()
    assert regard("tag", "--model", model, "--input", folder / "whole.txt", *form) == 0
    assert found == capsys.readouterr().out.split("\n")[:-1]
    plan = json.loads((folder / "out" / "plan.json").read_text())
    assert plan["settings"] == {"words": form == ("--words",)}


def test_scores_of_pairs_are_those_of_two_files(capsys, folder):
    pairs = [("Where is the station?", "Wo ist der Bahnhof?"), ("Hi", "Hallo"), ("I have 3 cats.", "Ja.")]
    for name, which in (("src", 0), ("ref", 1)):
        (folder / name).write_text("".join(f"{pair[which]}\n" for pair in pairs))
    (folder / "in" / "a.txt").write_text("".join("\t".join(pair) + "\n" for pair in pairs[:2]))
    with gzip.open(folder / "in" / "b.gz", "wt") as file:
        file.write("\t".join(pairs[2]) + "\n")
    found = sharded(folder, "score")
    capsys.readouterr()
    assert regard("score", "--src", folder / "src", "--ref", folder / "ref") == 0
    assert found == capsys.readouterr().out.split("\n")[:-1]
    for name in ("out", "merged"):
        (folder / name).rename(folder / f"old-{name}")
    tables = [json.loads(line) for line in sharded(folder, "score", "--json")]
    capsys.readouterr()
    assert regard("score", "--src", folder / "src", "--ref", folder / "ref", "--json") == 0
    plain = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [table["line"] for table in tables] == [1, 2, 3]
    for table, other in zip(tables, plain, strict=True):
        assert table["token_log_probs"] == pytest.approx(other["token_log_probs"], abs=1e-5)


def test_a_line_that_is_no_pair_is_set_aside(capsys, folder):
    (folder / "in" / "a.txt").write_text("Hi\tHallo\nHi\nHi\tHallo\tx\nHi\tHallo\n")
    report = score_shard(f"{folder}/in/a.txt", folder / "out", shard="1/1")
    assert (report.lines, report.failed) == (4, 2)
    merged = (folder / "out" / "parts" / "00000000.txt").read_text().split("\n")
    assert (merged[1], merged[2], merged[0]) == ("", "", merged[3])
    reasons = [reason for *_, reason in jobs_status(str(folder / "out")).failed]
    assert "line 2 is not SOURCE, a tab, TRANSLATION" in reasons[0]


def by_column(folder, *arguments, name="out", column="text"):
    """The merged output of a job by column."""
    where = ("--input", folder / "in.jsonl", "--output", folder / name, "--column", column)
    for shard in (1, 2):
        assert regard(arguments[0], *where, "--shard", f"{shard}/2", *arguments[1:]) == 0
    assert regard("jobs", "verify", folder / name) == 0
    assert regard("jobs", "merge", folder / name, "--to", folder / f"{name}.jsonl") == 0
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]


@pytest.fixture
def records(tmp_path):
    """A file of records, each with a text of LINES and its translation."""
    with open(tmp_path / "in.jsonl", "w") as file:
        for number, line in enumerate(LINES):
            print(json.dumps({"n": number, "text": line, "de": "Hallo"}), file=file)
    return tmp_path


def test_answers_by_column_are_those_of_a_file_of_lines(capsys, records, encoder_folder):
    (records / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    encoder = encoder_folder("classification", ("a", "b"))
    cases = [
        (("translate", "--threads", "1"), "translation", lambda line: line),
        (("embed", "--model", encoder), "vector", lambda line: [float(each) for each in line.split("\t")]),
        (("classify", "--model", encoder), "label", lambda line: line.split("\t")[0] or None),
    ]
    for arguments, name, value in cases:
        found = by_column(records, *arguments, name=name)
        capsys.readouterr()
        assert regard(*arguments, "--input", records / "in.txt") == 0
        lines = capsys.readouterr().out.split("\n")[:-1]
        assert [each[name] for each in found] == [value(line) for line in lines]
        assert [each["n"] for each in found] == list(range(len(LINES)))


def test_json_by_column_has_all_of_an_answer_but_its_line(capsys, records, decoder_folder):
    writer = ("generate", "--model", decoder_folder("bytes"), "--json", "--temperature", "0")
    found = by_column(records, *writer, "--into", "more")
    (records / "in.txt").write_text("".join(f"{line}\n" for line in LINES))
    capsys.readouterr()
    assert regard(*writer, "--input", records / "in.txt") == 0
    plain = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [{"line": each["n"] + 1, **each["more"]} for each in found] == plain


def test_pairs_of_two_columns_are_scored(capsys, records):
    found = by_column(records, "score", column="text,de")
    (records / "src").write_text("".join(f"{line}\n" for line in LINES))
    (records / "ref").write_text("Hallo\n" * len(LINES))
    capsys.readouterr()
    assert regard("score", "--src", records / "src", "--ref", records / "ref") == 0
    plain = [float(line.split("\t")[0]) for line in capsys.readouterr().out.splitlines()]
    assert [each["log_prob"] for each in found] == pytest.approx(plain, abs=1e-4)


def test_labels_of_words_need_json_to_be_one_cell(capsys, records, encoder_folder):
    model = encoder_folder("tokens", ("A", "B"))
    where = ("--input", records / "in.jsonl", "--output", records / "out", "--column", "text")
    assert regard("tag", "--model", model, *where, "--shard", "1/1") == 2
    assert "may have several lines, but a row has one cell" in capsys.readouterr().err
    found = by_column(records, "tag", "--model", model, "--json")
    assert [" ".join(word["word"] for word in each["words"]["words"]) for each in found[-2:]] == [
        "Good morning .",
        "Hi",
    ]


def test_a_parquet_file_without_a_column_is_refused(capsys, tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    where = ("--input", tmp_path / "a.parquet", "--output", tmp_path / "out")
    assert regard("translate", *where, "--shard", "1/1") == 2
    assert "name the column of its texts: --column NAME" in capsys.readouterr().err
    assert regard("translate", *where, "--shard", "1/1", "--column", "x") == 2
    assert "no Parquet file, or a damaged one" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
