"""Jobs on an engine: a message has all settings of the call, and what cannot be sent is named."""

import gzip
import importlib.util
import json
from pathlib import Path

import pytest

import regard
from regard.errors import ConfigError, MissingExtra, UserError
from regard.verbs.engine_jobs import as_keywords, everywhere
from regard.verbs.generation.controls import Controls
from regard.verbs.jobs import jobs_verify
from regard.verbs.line_jobs import translate_job
from regard.verbs.shards import translate_shard
from regard.verbs.shared.runtime import DecodingRuntime
from regard.verbs.shared.text_options import TranslationOptions


@pytest.fixture
def places(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(3):
        with gzip.open(tmp_path / "in" / f"{number}.gz", "wt") as file:
            file.write(f"I have {number} cats.\nHi\n")
    return str(tmp_path / "in" / "*"), tmp_path


def test_the_output_is_that_of_one_process(engine, places):
    pattern, folder = places
    settings = {"as_json": True, "beam_size": 2, "threads": 1}
    seen = []
    report = translate_shard(pattern, folder / "on", on="ray", done=seen.append, **settings)
    assert (report.parts, report.lines, len(seen)) == (3, 6, 3)
    assert (engine["address"], engine["cpus"], engine["processes"], engine["gpu"]) == ("ray", 1, None, None)
    translate_shard(pattern, folder / "here", on="local", **settings)
    for name in ("plan.json", "parts/00000000.txt", "parts/00000002.txt"):
        assert (folder / "on" / name).read_bytes() == (folder / "here" / name).read_bytes()
    assert jobs_verify(str(folder / "on")) == []
    again = translate_shard(pattern, folder / "on", shard="1/2", **settings)
    assert again.lines == 0


def test_a_column_is_in_the_message(engine, tmp_path):
    (tmp_path / "in.tsv").write_text("en\tn\nHi\t1\nI have a cat.\t2\n")
    settings = {"column": "en", "into": "de", "threads": 1}
    translate_shard(tmp_path / "in.tsv", tmp_path / "on", on="ray", **settings)
    translate_shard(tmp_path / "in.tsv", tmp_path / "here", shard="1/1", **settings)
    found = [(tmp_path / name / "parts" / "00000000.tsv").read_bytes() for name in ("on", "here")]
    assert found == [b"en\tn\tde\nHi\t1\tHallo\nI have a cat.\t2\tIch habe eine Katze.\n"] * 2


def test_the_message_has_all_settings_that_are_no_defaults(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.json").write_text("{}")
    controls = Controls(beam_size=3, alpha=0.5, ban=("x",))
    options = TranslationOptions(n_best=2, split="off", workers=1)
    settings = {"controls": controls, "options": options, "as_json": True, "model": "en-de"}
    found = as_keywords({**settings, "runtime": DecodingRuntime(threads=1)})
    assert found == json.loads(json.dumps(found))
    assert found["model"] == "en-de"  # a name, no path
    job = translate_job(**found)
    assert job.settings == [controls, options, DecodingRuntime(threads=1)]
    assert job.format == "json"


def test_a_path_means_the_same_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    assert as_keywords({"model": "model"})["model"] == str(tmp_path / "model")
    (tmp_path / "terms.tsv").write_text("a\tb\n")
    for name in ("terms.tsv", Path("terms.tsv")):
        options = TranslationOptions(glossary=name)
        assert as_keywords({"options": options})["glossary"] == str(tmp_path / "terms.tsv")
    assert everywhere("in/*.gz") == str(tmp_path / "in/*.gz")
    assert everywhere("s3://bucket/in/*.gz") == "s3://bucket/in/*.gz"


@pytest.mark.parametrize(
    ("settings", "error", "named"),
    [
        ({"on": "spark"}, ConfigError, "on = 'spark' is not an engine"),
        ({"on": "rays://x"}, ConfigError, "is not an engine"),
        ({"on": "ray", "shard": "1/2"}, UserError, "both a shard and an engine"),
        ({"processes": 2}, UserError, "processes are for a cluster"),
        ({"on": "local", "processes": 2}, UserError, "processes are for a cluster"),
        ({"on": "ray", "workers": 2}, UserError, "workers are for one machine"),
        ({"on": "ray", "processes": 0}, UserError, "processes is 0"),
    ],
)
def test_mistakes_are_named(engine, places, settings, error, named):
    with pytest.raises(error, match=named):
        translate_shard(places[0], places[1] / "out", **settings)
    assert not (places[1] / "out").exists()


def test_a_loaded_model_is_not_sent(engine, places):
    with pytest.raises(UserError, match="processes load the model themselves"):
        translate_shard(places[0], places[1] / "out", model=regard.load(), on="ray")


def test_a_missing_package_is_named(places):
    if importlib.util.find_spec("ray") is not None:
        pytest.skip("ray is installed")
    with pytest.raises(MissingExtra, match="--on ray needs ray, which is not installed") as error:
        translate_shard(places[0], places[1] / "out", on="ray")
    assert error.value.hint == "pip install 'regard[jobs-ray]'"
    assert not (places[1] / "out").exists()
