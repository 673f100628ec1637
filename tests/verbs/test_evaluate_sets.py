"""Scores on many test sets are those of each alone; what is done is not done again; mistakes are named."""

import json

import pytest

import regard
from regard.cli import run
from regard.errors import ConfigError, DataError, FolderError, RecipeError, RunError, UserError
from regard.verbs import evaluate_sets as module
from regard.verbs.evaluate import evaluate
from regard.verbs.evaluate_sets import evaluate_sets
from regard.verbs.jobs import jobs_status

SETS = """
[phrases]
src = "a.en"
ref = "a.de"
[greetings]
src = "b.en"
ref = ["b.de", "c.de"]
"""
FILES = {
    "a.en": "Where is the station?\nThank you very much.\nI have 3 cats.\n",
    "a.de": "Wo ist der Bahnhof?\nVielen Dank.\nIch habe drei Katzen.\n",
    "b.en": "Good morning.\nHi\n",
    "b.de": "Guten Morgen.\nHallo\n",
    "c.de": "Guten Morgen!\nHi\n",
    "sets.toml": SETS,
}
FAST = {"threads": 1, "workers": 1, "beam_size": 1}


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def evaluated(monkeypatch):
    """The files that were evaluated."""
    seen = []

    def watched(**settings):
        seen.append(settings["src"].rpartition("/")[2])
        return evaluate(**settings)

    monkeypatch.setattr(module, "evaluate", watched)
    return seen


def test_the_scores_are_those_of_each_set(folder):
    found = evaluate_sets(folder / "sets.toml", lowercase=True, **FAST)
    assert [each.task for each in found.done] == ["phrases", "greetings"]
    assert found.missing == ()
    for record, src, ref in zip(found.done, ("a.en", "b.en"), (["a.de"], ["b.de", "c.de"]), strict=True):
        alone = evaluate(src=folder / src, ref=[folder / each for each in ref], lowercase=True, **FAST)
        assert record.result == alone.to_dict()
        assert record.scores == {score.name: score.value for score in alone.scores}


def test_what_is_done_is_not_done_again(folder, evaluated):
    out = folder / "out"
    first = evaluate_sets(folder / "sets.toml", output=out, shard="2/2", **FAST)
    assert (first.missing, evaluated) == (("phrases",), ["b.en"])
    whole = evaluate_sets(folder / "sets.toml", output=out, **FAST)
    assert (whole.missing, evaluated) == ((), ["b.en", "a.en"])
    assert evaluate_sets(folder / "sets.toml", output=out, **FAST) == whole
    assert evaluated == ["b.en", "a.en"]
    assert regard.jobs_status(str(out)) == whole
    lines = (out / "translations" / "phrases.txt").read_text().splitlines()
    assert lines == [regard.translate(line, threads=1, beam_size=1) for line in FILES["a.en"].splitlines()]


def test_data_of_the_recipe_s_kind_are_a_set(tmp_path, monkeypatch, encoder_folder):
    (tmp_path / "test.txt").write_text("x")
    (tmp_path / "sets.toml").write_text('[one]\ndata = "test.txt"\n')
    asked = {}

    class Stopped(Exception):
        pass

    def stop(**settings):
        asked.update(settings)
        raise Stopped

    monkeypatch.setattr(module, "evaluate", stop)
    with pytest.raises(Stopped):
        evaluate_sets(tmp_path / "sets.toml", model=encoder_folder("classification", ("a", "b")), context=3)
    assert asked["data"] == str(tmp_path / "test.txt")
    assert asked["context"] == 3
    assert not asked.keys() & {"src", "ref", "lowercase"}


def test_another_job_is_refused(folder, decoder_folder):
    """Of other settings, another model, another set and another file."""
    out, sets, file = folder / "out", folder / "sets.toml", folder / "a.en"
    evaluate_sets(sets, output=out, **FAST)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    def refused(**settings):
        with pytest.raises(DataError, match="is the output of another job") as error:
            evaluate_sets(sets, output=out, **FAST | settings)
        return error.value.message

    assert "beam_size was 1, and is 2" in refused(beam_size=2)
    other = decoder_folder("bytes")
    assert f"and is '{other}'" in refused(model=other)
    sets.write_text(SETS.replace("phrases", "other"))
    assert refused()
    sets.write_text(SETS)
    file.write_text(FILES["a.en"].replace("3", "4"))
    assert "a.en has changed" in refused()
    file.write_text(FILES["a.en"])
    assert evaluate_sets(sets, output=out, **FAST).missing == ()
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("content", "kind", "named"),
    [
        ("", RecipeError, "has no test set"),
        ("x = 1", RecipeError, "x is not a table"),
        ('["../x"]\ndata = "a.en"', RecipeError, "'../x' is not a file name"),
        ('[x]\nref = "a.de"', RecipeError, "x: a test set has src and ref, or data"),
        ('[x]\nsrc = "a.en"\nref = "a.de"\ndata = "a.en"', RecipeError, "has src and ref, or data"),
        ("[x]", RecipeError, "has src and ref, or data"),
        ('[x]\nsource = "a.en"', RecipeError, "unknown key x.source"),
        ('[x]\nsrc = "a.en"\nref = "none"', DataError, "x: no such file"),
        ("[x", RecipeError, "sets.toml: "),
    ],
)
def test_a_file_of_sets_that_cannot_be_read_is_named(folder, content, kind, named):
    (folder / "sets.toml").write_text(content)
    with pytest.raises(kind) as error:
        evaluate_sets(folder / "sets.toml", output=folder / "out", **FAST)
    assert named in error.value.message
    assert "sets.toml" in error.value.message
    assert not (folder / "out").exists()


def test_other_mistakes_are_named(folder):
    with pytest.raises(DataError, match="no such file of test sets"):
        evaluate_sets(folder / "none.toml")
    with pytest.raises(UserError, match="need an output that all share"):
        evaluate_sets(folder / "sets.toml", shard="1/2")
    with pytest.raises(ConfigError, match="is not I/N"):
        evaluate_sets(folder / "sets.toml", shard="3/2", output=folder / "out")
    with pytest.raises(FolderError):
        evaluate_sets(folder / "sets.toml", model=folder / "nowhere")


def test_the_command_prints_a_row_for_each_set(capsys, folder):
    arguments = [
        "evaluate",
        "--sets",
        str(folder / "sets.toml"),
        "--threads",
        "1",
        "--output",
        str(folder / "out"),
    ]
    assert run([*arguments, "--shard", "1/2"]) == 0
    assert "1 of 2 are done, missing: greetings" in capsys.readouterr().out
    assert run(arguments) == 0
    printed = capsys.readouterr().out
    rows = printed.splitlines()
    assert rows[0].split() == ["test", "set", "BLEU", "chrF2++", "chrF2", "TER"]
    assert [row.split()[0] for row in rows[1:3]] == ["phrases", "greetings"]
    assert any(row.startswith("BLEU  nrefs:1|") for row in rows[3:])  # each score's signature
    assert run(["jobs", "status", str(folder / "out")]) == 0
    assert capsys.readouterr().out == printed
    assert run([*arguments, "--json"]) == 0
    assert [each["set"] for each in json.loads(capsys.readouterr().out)] == ["phrases", "greetings"]
    for wrong, named in (
        (["evaluate", "--sets", "a", "--src", "b", "--ref", "c"], "--sets names all files"),
        (["evaluate", "--sets", "a", "--hypotheses", "b"], "--hypotheses are translations already"),
        (["evaluate", "--shard", "1/2"], "--output, --shard, --on and --processes are for --sets"),
        (["jobs", "merge", str(folder / "out"), "--to", str(folder / "x")], "results are scores, not lines"),
    ):
        assert run(wrong) == 2
        assert named in capsys.readouterr().err


def test_an_engine_scores_as_one_process_does(folder, engine, metrics):
    here = evaluate_sets(folder / "sets.toml", output=folder / "here", **FAST)
    seen = []
    found = evaluate_sets(
        folder / "sets.toml", output=folder / "out", on="ray", processes=3, done=seen.append, **FAST
    )
    assert (engine["processes"], engine["cpus"]) == (3, 1)
    assert [each.scores for each in found.done] == [each.scores for each in here.done]
    assert sorted(each.task for each in seen) == sorted(found.tasks)
    for name in found.tasks:
        files = [folder / where / "translations" / f"{name}.txt" for where in ("here", "out")]
        assert files[0].read_bytes() == files[1].read_bytes()
    learned = {"metric": metrics / "source-joined", "output": folder / "learned", "on": "ray", **FAST}
    assert "source-joined" in evaluate_sets(folder / "sets.toml", **learned).done[0].scores
    with pytest.raises(UserError, match="workers are for one machine"):
        evaluate_sets(folder / "sets.toml", output=folder / "out", on="ray", workers=2)


def test_a_set_that_fails_on_an_engine_is_named_and_the_others_are_done(folder, engine, monkeypatch):
    monkeypatch.setattr(module, "_refuse_other_lengths", lambda *given: None)  # so that it fails there
    (folder / "odd.de").write_text("one line\n")
    table = (folder / "sets.toml").read_text() + '[odd]\nsrc = "a.en"\nref = "odd.de"\n'
    (folder / "sets.toml").write_text(table)
    with pytest.raises(RunError, match=r"1 of 3 test sets failed, the first is odd: .*lines"):
        evaluate_sets(folder / "sets.toml", output=folder / "out", on="ray", **FAST)
    assert jobs_status(str(folder / "out")).missing == ("odd",)


def test_a_learned_metric_scores_each_set_of_sentences(folder, metrics):
    (folder / "data.toml").write_text(SETS)
    found = evaluate_sets(folder / "data.toml", metric=metrics / "source-joined", **FAST)
    alone = evaluate(src=folder / "a.en", ref=folder / "a.de", metric=metrics / "source-joined", **FAST)
    assert found.done[0].result == alone.to_dict()
    assert "source-joined" in found.done[0].scores


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ('[a]\nsrc = "a.en"\nref = "a.de"\n[b]\ndata = "a.de"\n', {"lowercase": True}, "b has data: metric"),
        ('[a]\nsrc = "a.en"\nref = "a.de"\n[b]\nsrc = "b.en"\n', {}, "b has no ref"),
        (
            '[a]\nsrc = "b.en"\nref = ["b.de", "c.de"]\n',
            {"metric": "joined"},
            "with one reference, not with 2",
        ),
        ('[a]\nsrc = "a.en"\n', {"metric": "apart"}, "compares a translation with its reference"),
    ],
)
def test_what_one_set_cannot_have_is_refused_before_the_first_is_scored(
    folder, metrics, evaluated, table, given, message
):
    (folder / "some.toml").write_text(table)
    given = {**given, "metric": metrics / given["metric"]} if "metric" in given else given
    with pytest.raises(UserError, match=message):
        evaluate_sets(folder / "some.toml", **given, **FAST)
    assert not evaluated


def test_a_set_without_references_is_scored_by_a_metric_that_reads_none(folder, metrics):
    (folder / "some.toml").write_text('[a]\nsrc = "a.en"\n')
    [record] = evaluate_sets(folder / "some.toml", metric=metrics / "source-apart", **FAST).done
    assert list(record.scores) == ["source-apart"]


def test_files_of_different_lengths_are_named_before_a_set_is_translated(folder, evaluated):
    (folder / "c.de").write_text(FILES["c.de"] + "Hallo\n")
    with pytest.raises(DataError, match=r"greetings: .*b\.en has 2 lines, and .*c\.de 3") as raised:
        evaluate_sets(folder / "sets.toml", output=folder / "out", **FAST)
    assert "sets.toml" in raised.value.message
    assert not evaluated
    assert not (folder / "out").exists()


def test_a_context_is_for_test_data_alone(folder):
    with pytest.raises(UserError, match="phrases has src: context is for the test data"):
        evaluate_sets(folder / "sets.toml", context=3, **FAST)
