"""A setting is read with its type or refused by its name; what was not read is refused, too."""

import pytest

from regard.errors import FolderError
from regard.weights.toolkits.settings import ABSENT, Settings


def named(value):
    """The name of a parameter, the same in each process."""
    return "absent" if value is ABSENT else str(value)


def settings_of(table):
    return Settings(table, "config.yaml", "model.")


@pytest.mark.parametrize(
    ("kind", "written", "read"),
    [
        (int, 3, 3), (int, "3", 3), (int, 0, 0), (int, -1, -1), (int, 2**62 - 1, 2**62 - 1),
        (float, 0.5, 0.5), (float, "0.5", 0.5), (float, 2, 2.0), (float, 0, 0.0), (float, "1e-5", 1e-5),
        (bool, True, True), (bool, False, False), (bool, "true", True), (bool, "False", False),
        (str, "relu", "relu"), (str, "", ""), (str, "none", "none"), (str, 3, "3"), (str, 0.5, "0.5"),
    ],
    ids=named,
)  # fmt: skip
def test_a_value_has_its_type(kind, written, read):
    settings = settings_of({"size": written})
    found = settings.take(kind, "size", None)
    assert found == read
    assert type(found) is kind
    settings.finish()


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (int, 0.5), (int, "0.5"), (int, True), (int, "x"), (int, [3]), (int, 2**62), (int, -(2**62)),
        (float, True), (float, "x"), (float, [0.5]),
        (bool, 1), (bool, 0), (bool, "yes"), (bool, [True]),
        (str, True), (str, ["relu"]), (str, {"a": "b"}),
    ],
    ids=named,
)  # fmt: skip
def test_a_value_of_another_type_is_refused(kind, written):
    with pytest.raises(FolderError) as caught:
        settings_of({"size": written}).take(kind, "size", None)
    assert caught.value.message == f"config.yaml: model.size = {str(written)!r} is not supported"
    assert caught.value.hint == f"give a value of type {kind.__name__}"


@pytest.mark.parametrize("kind", [int, float, bool, str])
@pytest.mark.parametrize("written", [ABSENT, None, "null", "~", "none", "None", ""], ids=named)
def test_what_is_absent_or_null_has_the_default(kind, written):
    """A word is a word where one is asked for."""
    table = {} if written is ABSENT else {"size": written}
    if kind is str and isinstance(written, str):
        assert settings_of(table).take(kind, "size", "other") == written
        return
    assert settings_of(table).optional(kind, "size") is None
    assert settings_of(table).take(kind, "size", kind(3)) == kind(3)
    with pytest.raises(FolderError, match=r"config\.yaml: model\.size is missing") as caught:
        settings_of(table).take(kind, "size")
    assert caught.value.hint == "copy the checkpoint again"


def test_a_word_is_one_of_those_known():
    known = {"relu": 1, "gelu": 2}
    assert settings_of({"activation": "gelu"}).choice(known, "activation") == 2
    assert settings_of({}).choice(known, "activation", "relu") == 1
    with pytest.raises(FolderError, match="activation = 'gelo' is not supported") as caught:
        settings_of({"activation": "gelo"}).choice(known, "activation")
    assert "gelu" in caught.value.hint
    with pytest.raises(FolderError, match="activation is missing"):
        settings_of({}).choice(known, "activation")


@pytest.mark.parametrize(
    ("written", "values", "same"),
    [
        (ABSENT, (4,), True), (None, (4,), True), ("null", (False,), True), ("none", ("mlp",), True),
        (None, (), True), (ABSENT, (), True), (4, (), False), (False, (), False),
        (4, (4,), True), (4.0, (4,), True), ("4", (4,), True), ("4.0", (4,), True), (5, (4,), False),
        ("x", (4,), False), (8, (4, 8), True), (6, (4, 8), False), (0.5, (0.5,), True), ("0.5", (0.5,), True),
        (0, (0,), True), (False, (0,), False), (True, (1,), False), (1, (True,), False), (0, (False,), False),
        (True, (True,), True), ("True", (True,), True), ("true", (True,), True), ("false", (True,), False),
        (False, (False,), True), ("false", (False,), True), ("no", (False,), False),
        ("mlp", ("mlp",), True), ("mlp", ("other", "mlp"), True), ("MLP", ("mlp",), False),
        ([1], ([1],), True), ([1], ([2],), False), ((1,), ([1],), False),
    ],
    ids=named,
)  # fmt: skip
def test_a_setting_with_one_value_alone(written, values, same):
    settings = settings_of({} if written is ABSENT else {"layout": written})
    if same:
        settings.must_be("layout", *values)
        settings.finish()
        return
    with pytest.raises(FolderError, match=r"model\.layout = .* is not supported") as caught:
        settings.must_be("layout", *values)
    assert caught.value.hint == (f"only {values[0]!r} is" if values else "only null is")
    with pytest.raises(FolderError) as caught:
        settings.must_be("layout", *values, hint="use another")
    assert caught.value.hint == "use another"


def test_a_table_in_a_table():
    settings = settings_of({"stack": {"layers": 2}, "list": [1], "none": None})
    stack = settings.section("stack")
    assert (stack.take(int, "layers"), stack.where, stack.path) == (2, "config.yaml", "model.stack.")
    for name in ("list", "none", "absent"):
        with pytest.raises(FolderError, match=rf"config\.yaml: model\.{name} is not a table") as caught:
            settings.section(name)
        assert caught.value.hint
    settings.finish()


def test_what_was_not_read_is_refused():
    """The first by name; a long value is cut."""
    table = {"taken": 1, "chosen": "a", "fixed": 1, "ignored": 1, "inner": {}, "other": "x" * 99, "zeta": 1}
    settings = settings_of(table)
    settings.take(int, "taken")
    settings.choice({"a": 1}, "chosen")
    settings.must_be("fixed", 1)
    settings.ignore("ignored", "absent")
    settings.section("inner")
    with pytest.raises(FolderError) as caught:
        settings.finish()
    assert caught.value.message == (
        f"config.yaml: the setting model.other = {'x' * 80!r} is unknown to regard"
    )
    assert caught.value.hint
    assert settings.refusal("other", "a hint").message == (
        f"config.yaml: model.other = {'x' * 80!r} is not supported"
    )
    settings.ignore("other", "zeta")
    settings.finish()
