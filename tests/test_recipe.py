"""The recipe reader refuses unknown keys and wrong types, with a hint."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from regard.errors import RecipeError
from regard.recipe import apply_overrides, differences, read, read_toml


@dataclass(frozen=True, kw_only=True)
class Inner:
    rate: float = 0.1
    kind: Literal["pre", "post"] = "post"


@dataclass(frozen=True, kw_only=True)
class Outer:
    name: str
    steps: int = 10
    tied: bool = True
    path: Path | None = None
    languages: tuple[str, ...] = ()
    inner: Inner = field(default_factory=Inner)
    free: dict[str, object] = field(default_factory=dict)


def test_a_table_becomes_the_dataclass_it_describes():
    table = {
        "name": "x",
        "steps": 3,
        "path": "a/b",
        "languages": ["de", "no"],
        "inner": {"rate": 1, "kind": "pre"},
        "free": {"anything": 1},
    }
    expected = Outer(
        name="x",
        steps=3,
        path=Path("a/b"),
        languages=("de", "no"),
        inner=Inner(rate=1.0, kind="pre"),
        free={"anything": 1},
    )
    assert read(Outer, table) == expected


@dataclass(frozen=True, kw_only=True)
class Middle:
    depth: int = 1
    inner: Inner | None = None


@dataclass(frozen=True, kw_only=True)
class Outermost:
    listed: tuple[Inner, ...] = ()
    middle: Middle = field(default_factory=Middle)
    depths: int = 1


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ({"depth": 2}, "'middle.depth'"),  # not depths, which begins alike
        ({"rate": 2}, "'middle.inner.rate'"),
        ({"middle": {"rate": 2}}, "'middle.inner.rate'"),
        ({"middle": {"deptt": 2}}, "'depth'"),
        ({"depthss": 2}, "'depths'"),
    ],
)
def test_a_key_that_is_in_a_section_is_found_there(table, hint):
    with pytest.raises(RecipeError, match="unknown key") as caught:
        read(Outermost, table)
    assert caught.value.hint == f"did you mean {hint}?"


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ({"name": "x", "stepps": 1}, "unknown key stepps", "'steps'"),
        ({"name": "x", "inner": {"rat": 1}}, "unknown key inner.rat", "'rate'"),
        ({}, "name is missing", "a string"),
        ({"name": 1}, "name must be a string, not 1", "a string"),
        ({"name": "x", "steps": "ten"}, "steps must be an integer, not 'ten'", "an integer"),
        ({"name": "x", "steps": True}, "steps must be an integer, not True", "an integer"),
        ({"name": "x", "steps": 1.5}, "steps must be an integer, not 1.5", "an integer"),
        ({"name": "x", "steps": 2**63}, "steps is too large an integer", "2^63 - 1"),
        ({"name": "x", "tied": 1}, "tied must be true or false, not 1", "true or false"),
        (
            {"name": "x", "inner": {"kind": "past"}},
            "inner.kind must be one of 'pre', 'post', not 'past'",
            "'post'",
        ),
        ({"name": "x", "languages": "de"}, "languages must be a list, each a string, not 'de'", "a list"),
        ({"name": "x", "languages": [1]}, "languages[0] must be a string, not 1", "a string"),
        (
            {"name": "x", "inner": {"rate": float("nan")}},
            "inner.rate must be a finite number, not nan",
            "NaN",
        ),
        ({"name": "x", "inner": 3}, "inner must be a table, not 3", "a table"),
        ({"name": "x", "path": 3}, "path must be a path, not 3", "a path"),
    ],
)
def test_a_mistake_is_named_in_full_with_a_hint(table, message, hint):
    with pytest.raises(RecipeError) as caught:
        read(Outer, table)
    assert caught.value.message == message
    assert hint in caught.value.hint


def test_an_override_is_toml_where_it_reads_as_toml_and_else_a_string():
    table = {"a": {"b": 1}}
    overrides = ["a.b=2", "a.c = 1e-3", "d=text", "e.f=[1, 2]", "g=true", 'h="true"', "i=a=b"]
    assert apply_overrides(table, overrides) == {
        "a": {"b": 2, "c": 1e-3},
        "d": "text",
        "e": {"f": [1, 2]},
        "g": True,
        "h": "true",
        "i": "a=b",
    }
    assert table == {"a": {"b": 1}}, "the table itself stays as it was"


def test_an_override_reaches_into_a_list_of_tables():
    table = {"data": {"train": [{"weight": 3.0}, {"weight": 1.0, "source": "b"}]}}
    changed = apply_overrides(table, ["data.train.1.weight=2.0", "data.train.0.weight=null"])
    assert changed == {"data": {"train": [{}, {"weight": 2.0, "source": "b"}]}}
    assert table["data"]["train"][1]["weight"] == 1.0
    for override in ("data.train.2.weight=1", "data.train.first.weight=1"):
        with pytest.raises(RecipeError, match="is no table of the list") as refused:
            apply_overrides(table, [override])
        assert "from 0 to 1" in refused.value.hint
    with pytest.raises(RecipeError, match="train is a list of tables"):
        apply_overrides(table, ["data.train.weight=1"])


def test_an_override_null_removes_a_key_or_a_section_and_adds_none():
    table = {"a": {"b": 1, "c": 2}, "d": {"e": 1}, "f": 1}
    removed = ["a.b=null", "d = null", "f=null", "f=2", "g.h=null", "a.i=null", 'j="null"']
    assert apply_overrides(table, removed) == {"a": {"c": 2}, "f": 2, "j": "null"}


@pytest.mark.parametrize("override", ["a.b", "=1", "a..b=1", "a.b.c=1"])
def test_an_override_of_another_form_is_refused(override):
    with pytest.raises(RecipeError, match="--set"):
        apply_overrides({"a": {"b": 1}}, [override])


def test_differences_are_named_by_their_dotted_keys():
    old = {"a": {"b": 1, "c": 2}, "d": 1}
    new = {"a": {"b": 1, "c": 3}, "e": {"f": "x"}}
    assert differences(old, new) == ["a.c: 2 -> 3", "d: 1 -> not set", "e.f: not set -> 'x'"]
    assert differences(old, old) == []


def test_differences_within_a_list_of_tables_have_their_numbers():
    old = {"data": {"train": [{"source": "a", "weight": 3.0}, {"source": "b"}]}}
    new = {"data": {"train": [{"source": "a", "weight": 1}, {"source": "b"}, {"source": "c"}]}}
    wanted = ["data.train.0.weight: 3.0 -> 1", "data.train.2.source: not set -> 'c'"]
    assert differences(old, new) == wanted
    assert differences({"a": [1, 2], "b": {}}, {"a": [1], "b": 3}) == ["a: [1, 2] -> [1]", "b: {} -> 3"]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"a = ", "Invalid value"), (b"a = '\xff'", "not UTF-8"), (None, "no such recipe")],
)
def test_a_file_that_is_no_recipe_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / "recipe.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecipeError, match=message) as caught:
        read_toml(path)
    assert str(path) in caught.value.message
