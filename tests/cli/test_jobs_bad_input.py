"""A job that cannot be done: one line says what is wrong, one what to do, and nothing is overwritten."""

import gzip
import json
import secrets

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from regard.cli import run
from regard.jobs import shard
from regard.jobs import storage as storages


@pytest.fixture(scope="module")
def begun():
    """The name of a bucket with inputs and the output of a job of which one part is done, and its objects."""
    files, name = fsspec.filesystem("memory"), f"bucket-{secrets.token_hex(4)}"
    files.mkdir(f"/{name}")
    files.pipe_file(f"/{name}/in/a.txt", b"Hi\nI have a cat.\n")
    files.pipe_file(f"/{name}/in/b.gz", gzip.compress(b"Hi\n") + gzip.compress(b"Good morning.\n" * 50))
    assert translated(f"memory://{name}", "--shard", "1/2") == 0
    return name, {path: files.store[path] for path in files.find(f"/{name}")}


@pytest.fixture
def bucket(monkeypatch, begun):
    """This bucket, as it was."""
    monkeypatch.setattr(storages, "FIRST_WAIT", 0.0)
    monkeypatch.setattr(shard, "WAIT", 0.0)
    files, (name, objects) = fsspec.filesystem("memory"), begun
    for path in files.find(f"/{name}"):
        files.store.pop(path)
    files.store.update(objects)
    return f"memory://{name}"


def translated(bucket, *arguments, input="in/*", output="out"):
    places = [each if "://" in each else f"{bucket}/{each}" for each in (input, output)]
    return run(["translate", "--input", places[0], "--output", places[1], "--threads", "1", *arguments])


def content(bucket):
    files = fsspec.filesystem("memory")
    path = bucket.removeprefix("memory:/")
    return {name: files.cat_file(name) for name in files.find(f"{path}/out")}


def refused(capsys, code):
    """The error and the hint, each a line, and nothing else."""
    assert code in (1, 2)
    error, hint = capsys.readouterr().err.splitlines()[-2:]
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")
    return error


def failing(monkeypatch, name, error):
    def fail(*arguments, **keywords):
        raise error

    monkeypatch.setattr(MemoryFileSystem, name, fail)


CASES = {
    "no bucket to read": "there is no such file",
    "no bucket to write": "does not exist",
    "no permission to read": "permission denied",
    "no permission to write": "permission denied",
    "changed file": "a.txt has changed",
    "file that is gone": "it had 2 inputs, and has 1",
    "damaged member": "b.gz: the compressed file is cut short or damaged",
    "other settings": "is the output of another job: beam_size was None, and is 3",
    "other command": "is the output of another job: command was 'translate', and is 'score'",
    "newer plan": "plan.json has format 2, this version of regard reads 1",
    "other version of regard": "is the output of another job: version was '0.0.1'",
    "damaged plan": "plan.json is damaged",
    "CoNLL-U among the inputs": "c.conllu.gz is CoNLL-U, and a job reads lines of text",
    "words in columns": "c.bio is words in columns, and a job reads lines of text",
    "CSV without a column": "c.csv is a table (CSV)",
    "JSON Lines without a column": "c.jsonl.gz is a table (JSON Lines)",
}


@pytest.mark.parametrize("case", CASES)
def test_a_job_that_cannot_be_done_is_named_and_overwrites_nothing(capsys, monkeypatch, bucket, case):
    files, path = fsspec.filesystem("memory"), bucket.removeprefix("memory:/")
    arguments: dict[str, str] = {}
    options: tuple[str, ...] = ("--shard", "1/1")
    plan = json.loads(files.cat_file(f"{path}/out/plan.json"))
    match case:
        case "no bucket to read":
            arguments["input"] = "memory://nowhere/in/*"
        case "no bucket to write":
            failing(monkeypatch, "pipe_file", FileNotFoundError("The specified bucket does not exist"))
            arguments["output"] = "memory://nowhere/out"
        case "no permission to read":
            failing(monkeypatch, "info", PermissionError("Forbidden"))
        case "no permission to write":
            failing(monkeypatch, "pipe_file", PermissionError("Forbidden"))
        case "changed file":
            files.pipe_file(f"{path}/in/a.txt", b"Hi\nAnother.\n")
        case "file that is gone":
            files.rm(f"{path}/in/b.gz")
        case "damaged member":
            damaged = gzip.compress(b"Hi\n") + gzip.compress(b"Good morning.\n" * 50)[:-12]
            files.pipe_file(f"{path}/in/b.gz", damaged)
            arguments["output"] = "other"
        case "CoNLL-U among the inputs":
            files.pipe_file(f"{path}/in/c.conllu.gz", gzip.compress(b"1\tHi\thi\tINTJ\n"))
            arguments["output"] = "other"
        case "words in columns":
            files.pipe_file(f"{path}/in/c.bio", b"Hi O\n")
            arguments["output"] = "other"
        case "CSV without a column":
            files.pipe_file(f"{path}/in/c.csv", b"text\nHi\n")
            arguments["output"] = "other"
        case "JSON Lines without a column":
            files.pipe_file(f"{path}/in/c.jsonl.gz", gzip.compress(b'{"text": "Hi"}\n'))
            arguments["output"] = "other"
        case "other settings":
            options = (*options, "--beam-size", "3")
        case "newer plan":
            files.pipe_file(f"{path}/out/plan.json", json.dumps({**plan, "format_version": 2}).encode())
        case "other version of regard":
            files.pipe_file(f"{path}/out/plan.json", json.dumps({**plan, "version": "0.0.1"}).encode())
        case "damaged plan":
            files.pipe_file(f"{path}/out/plan.json", json.dumps(plan).encode()[:-20])
    before = content(bucket)
    capsys.readouterr()
    if case == "other command":
        code = run(["score", "--input", f"{bucket}/in/*", "--output", f"{bucket}/out", *options])
    else:
        code = translated(bucket, *options, **arguments)
    assert CASES[case] in refused(capsys, code)
    assert content(bucket) == before
    if case == "damaged member":  # what was read before is not a part
        assert sorted(files.ls(f"{path}/other/parts", detail=False)) == [
            f"{path}/other/parts/00000000.{kind}" for kind in ("json", "txt")
        ]


def test_a_file_that_changes_while_it_is_read_is_refused(capsys, monkeypatch, bucket):
    files, path = fsspec.filesystem("memory"), bucket.removeprefix("memory:/")
    files.pipe_file(f"{path}/in/b.gz", gzip.compress(b"Hi\n"))
    answered = shard._answered

    def changing(*given):
        files.pipe_file(f"{path}/in/b.gz", gzip.compress(b"Hello\n"))
        return answered(*given)

    monkeypatch.setattr(shard, "_answered", changing)
    capsys.readouterr()
    code = translated(bucket, "--shard", "2/2", output="other")
    assert "b.gz has changed since the job was planned" in refused(capsys, code)
    assert not files.exists(f"{path}/other/parts/00000001.json")
