"""YAML of toolkits: every scalar is a text, and what is not a table is refused by the file's name."""

import builtins

import pytest

from regard.errors import FolderError, MissingExtra
from regard.weights.toolkits.yaml_file import as_table, parse_yaml, read_yaml_table

pytest.importorskip("yaml")


def refused(message, call, *given):
    with pytest.raises(FolderError, match=message) as caught:
        call(*given)
    assert caught.value.hint
    assert "\n" not in caught.value.message


def test_no_value_is_guessed():
    written = b"no: 12\n1: ~\na: [yes, 1e-3, null]\nb: {c: 2020-01-01}\n"
    expected = {"no": "12", "1": "~", "a": ["yes", "1e-3", "null"], "b": {"c": "2020-01-01"}}
    assert parse_yaml(written, "f.yml") == expected
    assert parse_yaml("ü: ß\n".encode(), "f.yml") == {"ü": "ß"}
    assert parse_yaml(b"", "f.yml") is None


@pytest.mark.parametrize("content", [b"a: [1", b"a: b: c", b"\xff", b"--- a\n--- b", b"[" * 3000])
def test_what_is_no_yaml_is_refused(content):
    refused(r"^f\.yml is not YAML: \S", parse_yaml, content, "f.yml")


def test_no_object_is_made():
    assert parse_yaml(b"!!python/object/apply:os.getcwd []", "f.yml") == []


@pytest.mark.parametrize("found", [None, "text", ["a"], {1: "a"}, {"a": 1, 2: 3}, {None: "a"}])
def test_a_table_has_texts_as_names(found):
    refused(r"^f\.yml is not a table of settings", as_table, found, "f.yml")
    assert as_table({}, "f.yml") == {}
    assert as_table({"a": ["b"]}, "f.yml") == {"a": ["b"]}


def test_a_file_that_is_missing_or_no_table_is_refused(tmp_path):
    path = tmp_path / "f.yml"
    refused(r"f\.yml", read_yaml_table, path)
    path.write_text("- a\n", "utf-8")
    refused(r"f\.yml is not a table", read_yaml_table, path)
    path.write_text("a: 1\n", "utf-8")
    assert read_yaml_table(path) == {"a": "1"}


def test_without_the_library_the_extra_is_named(monkeypatch):
    imported = builtins.__import__

    def without(name, *more, **others):
        if name == "yaml":
            raise ImportError(name)
        return imported(name, *more, **others)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtra, match=r"reading f\.yml"):
        parse_yaml(b"a: 1", "/models/f.yml")
