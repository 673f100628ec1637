"""The store of glossaries: limits, files, and what a folder may hold."""

import json
from datetime import datetime

import pytest

from regard.errors import FolderError
from regard.serving import glossaries
from regard.serving.glossaries import GlossaryStore, dictionary_of
from regard.serving.http_error import HttpProblem
from regard.verbs.generation.glossary import Dictionary

PAIR, BACK = ("en", "de"), ("de", "en")
ONE = {PAIR: Dictionary({"a": "b", "c": "\u00fc"})}


def test_a_folder_gives_the_same_glossaries_after_a_restart(tmp_path):
    folder = tmp_path / "new" / "glossaries"
    store = GlossaryStore(folder)
    made = [store.create(f"name {number}", ONE) for number in range(3)]
    assert len({each.created for each in made}) == 3
    store.change(
        made[1].id, name="other", merged={PAIR: Dictionary({"a": "x"}), BACK: Dictionary({"b": "a"})}
    )
    store.change(made[0].id, replaced={PAIR: Dictionary({"z": "y"})})
    store.delete(made[2].id)
    assert GlossaryStore(folder).all() == store.all()
    assert [each.name for each in store.all()] == ["name 0", "other"]
    assert dict(dictionary_of(store.all()[0], PAIR).entries) == {"z": "y"}
    assert dict(dictionary_of(store.all()[1], PAIR).entries) == {"a": "x", "c": "\u00fc"}
    store.change(made[1].id, removed=BACK)
    assert list(GlossaryStore(folder).get(made[1].id).dictionaries) == [PAIR]


def test_files_have_names_that_no_request_gives(tmp_path):
    store = GlossaryStore(tmp_path)
    made = store.create("../../name", ONE)
    assert [file.name for file in tmp_path.iterdir()] == [f"{made.id}.json"]
    for identifier in ("../x", "x", "", made.id.upper(), f"{made.id}.json", f"./{made.id}"):
        for call in (store.get, store.delete):
            with pytest.raises(HttpProblem) as refused:
                call(identifier)
            assert refused.value.status == 404
    assert store.all() == [made]


@pytest.mark.parametrize(
    ("limit", "most"), [("MOST", 2), ("MOST_ENTRIES", 5), ("MOST_BYTES", 13), ("MOST_DICTIONARIES", 0)]
)
def test_beyond_a_limit_nothing_changes(tmp_path, monkeypatch, limit, most):
    store = GlossaryStore(tmp_path)
    kept = [store.create(name, ONE) for name in ("a", "b")]
    monkeypatch.setattr(glossaries, limit, most)
    with pytest.raises(HttpProblem) as refused:
        store.create("c", ONE)
    assert refused.value.status == 456
    assert store.all() == kept
    assert len(list(tmp_path.iterdir())) == len(kept)


@pytest.mark.parametrize(
    ("limit", "most"), [("MOST", 3), ("MOST_ENTRIES", 6), ("MOST_BYTES", 15), ("MOST_DICTIONARIES", 1)]
)
def test_up_to_a_limit_there_is_room_and_a_glossary_that_is_changed_counts_once(monkeypatch, limit, most):
    store = GlossaryStore()
    for name in ("a", "b"):
        store.create(name, ONE)
    monkeypatch.setattr(glossaries, limit, most)
    made = store.create("c", ONE)
    assert store.change(made.id, name="d" * 1024, replaced=ONE).name == "d" * 1024
    assert store.change(made.id, merged=ONE).name == "d" * 1024
    assert [(each.entries, each.bytes) for each in store.all()] == [(2, 5)] * 3


def test_a_missing_dictionary_and_a_wrong_name_are_refused():
    store = GlossaryStore()
    made = store.create("a", ONE)
    with pytest.raises(HttpProblem, match="no dictionary of de to en"):
        store.change(made.id, removed=BACK)
    for name in ("", "  ", "a\nb", "a" * 1025):
        with pytest.raises(HttpProblem, match="the name of a glossary"):
            store.change(made.id, name=name)
    assert store.all() == [made]
    with pytest.raises(HttpProblem) as refused:
        dictionary_of(made, ("x" * 99, "y" * 99))
    assert refused.value.message == f"the glossary has no dictionary of {'x' * 20} to {'y' * 20}"
    assert (refused.value.status, refused.value.hint) == (404, "it has en to de")


def test_glossaries_are_listed_by_their_age_after_a_restart_too(tmp_path):
    store = GlossaryStore(tmp_path)
    made = [store.create(str(number), ONE) for number in range(4)]
    for number, each in enumerate(made):  # the names of the files say nothing
        file = tmp_path / f"{each.id}.json"
        content = json.loads(file.read_text("utf-8"))
        file.write_text(json.dumps(content | {"created": f"2026-01-0{9 - number}"}))
    assert [each.name for each in GlossaryStore(tmp_path).all()] == ["3", "2", "1", "0"]


def test_a_glossary_whose_file_is_gone_can_be_deleted(tmp_path):
    store = GlossaryStore(tmp_path)
    made = store.create("a", ONE)
    (tmp_path / f"{made.id}.json").unlink()
    store.delete(made.id)
    assert store.all() == []


@pytest.mark.parametrize("spoil", ["{", '{"name": 1}', None, "entries"])
def test_a_file_that_is_no_glossary_stops_the_start(tmp_path, spoil):
    made = GlossaryStore(tmp_path).create("a", ONE)
    file = tmp_path / f"{made.id}.json"
    content = json.loads(file.read_text())
    content["dictionaries"][0]["entries"] = "a"
    file.write_text(json.dumps(content) if spoil == "entries" else spoil or "\0")
    with pytest.raises(FolderError, match="is not a glossary"):
        GlossaryStore(tmp_path)
    file.rename(tmp_path / "other.txt")
    assert GlossaryStore(tmp_path).all() == []


@pytest.mark.parametrize("place", ["file", "dictionary"])
def test_a_file_with_a_field_that_nobody_knows_stops_the_start(tmp_path, place):
    made = GlossaryStore(tmp_path).create("a", ONE)
    file = tmp_path / f"{made.id}.json"
    content = json.loads(file.read_text("utf-8"))
    (content if place == "file" else content["dictionaries"][0])["later"] = 1
    file.write_text(json.dumps(content), "utf-8")
    with pytest.raises(FolderError, match="later"):
        GlossaryStore(tmp_path)


def test_glossaries_that_are_made_at_the_same_time_have_an_order(monkeypatch):
    class Standing(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 1, 2, tzinfo=tz)

    monkeypatch.setattr(glossaries, "datetime", Standing)
    store = GlossaryStore()
    times = [store.create(str(number), ONE).created for number in range(3)]
    assert times == sorted(set(times))
    assert times[0].startswith("2026-01-02T00:00:00")


def test_a_folder_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(FolderError, match="--glossaries"):
        GlossaryStore(file)
