"""Reads recipes: TOML tables into frozen dataclasses; unknown keys and wrong types are refused."""

import contextlib
import dataclasses
import functools
import math
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Any, Literal, TypeVar, Union, cast

from regard.errors import ConfigError, RecipeError, UserError, did_you_mean

Settings = TypeVar("Settings")
NULL = "null"  # the value of an override that removes its key; '"null"' is a text
INTEGERS = 2**63  # the bound of PyTorch's integers


class UnknownKeyError(RecipeError):
    """A key that its section does not have; `key` is its dotted name."""

    def __init__(self, key: str, hint: str) -> None:
        super().__init__(f"unknown key {key}", hint)
        self.key = key


def read_toml(path: Path) -> tuple[dict[str, Any], str]:
    """Reads a TOML file; returns its table and its text.

    Raises:
        RecipeError: the file is missing, not UTF-8 or not TOML.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise RecipeError(
            f"{path}: no such recipe", "write one with `regard new SOURCE TARGET`, or see `regard recipes`"
        ) from None
    except IsADirectoryError:
        raise RecipeError(
            f"{path} is a folder, not a recipe", "give the TOML file in it, or a run folder"
        ) from None
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path}: not UTF-8 at byte {error.start}", "save the recipe as UTF-8") from None
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror}", "check the path and its permissions") from None
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as error:
        if path.suffix in (".yaml", ".yml"):
            raise RecipeError(
                f"{path} is YAML; recipes are TOML",
                "docs/do/coming-from-toolkits.md has the keys for those of other toolkits; `regard new`"
                " writes a recipe for your data, `regard convert FOLDER` reads a trained model",
            ) from None
        raise RecipeError(f"{path}: {error}", "see https://toml.io for the format") from None


def apply_overrides(table: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of `table` with each `section.key=value` set; a value that is not TOML is a string.

    `section.key=null` removes the key, or the section, so that its default holds (`removed_keys`).
    """
    result = _copy(table)
    for override in overrides:
        name, equals, text = override.partition("=")
        keys = name.strip().split(".")
        if not equals or not all(keys):
            raise RecipeError(f"--set {override}: not of the form section.key=value", "--set training.seed=1")
        inner = result
        is_removed = text.strip() == NULL
        for key in keys[:-1]:
            inner = _inside(override, inner, key, is_removed)
            if not isinstance(inner, dict | list):
                raise RecipeError(
                    f"--set {override}: {key} is a value, not a section", "set the value itself"
                )
        if not isinstance(inner, dict):
            raise RecipeError(
                f"--set {override}: {keys[-2]} is a list of tables",
                f"name a key of one, as {'.'.join(keys[:-1])}.0.KEY",
            )
        if is_removed:
            inner.pop(keys[-1], None)
        else:
            inner[keys[-1]] = set_value(text.strip())
    return result


def _inside(override: str, outer: Any, key: str, is_removed: bool) -> Any:
    """The section `key` of a section, made if it is missing; or the table of this number in a list."""
    if isinstance(outer, dict):
        return outer.get(key, {}) if is_removed else outer.setdefault(key, {})
    if not key.isdecimal() or int(key) >= len(outer):
        raise RecipeError(
            f"--set {override}: {key} is no table of the list",
            f"they are numbered from 0 to {len(outer) - 1}",
        )
    return outer[int(key)]


def removed_keys(overrides: Sequence[str]) -> list[str]:
    """The dotted names of the keys that overrides remove."""
    pairs = [override.partition("=") for override in overrides]
    return [name.strip() for name, _, text in pairs if text.strip() == NULL]


def has_override(overrides: Sequence[str], key: str) -> bool:
    """True if one of the overrides gives, or removes, the key of this dotted name."""
    return any(each.partition("=")[0].strip() == key for each in overrides)


def has_key(cls: type[Any], key: str) -> bool:
    """True if the dataclass has a key, or a section, of this dotted name; a `dict` has all."""
    name, _, rest = key.partition(".")
    hints = typing.get_type_hints(cls)
    if name not in {field.name for field in dataclasses.fields(cls)}:
        return False
    is_table = typing.get_origin(hints[name]) is dict
    return not rest or is_table or any(has_key(kind, rest) for kind in _sections(hints[name]))


def _copy(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) for key, value in table.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(each) for each in cast(list[Any], value)]
    return _copy(cast(Mapping[str, Any], value)) if isinstance(value, Mapping) else value


def set_value(text: str) -> Any:
    """The value that `--set` means by a text: TOML, else the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


@dataclasses.dataclass(frozen=True)
class Change:
    """A setting in which two tables differ, by its dotted name; None is not set."""

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.name}: {_shown(self.before)} -> {_shown(self.after)}"


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """One line, "name: old -> new", for each setting in which two tables differ."""
    return [str(each) for each in changes(old, new)]


def changes(old: Mapping[str, Any], new: Mapping[str, Any], where: str = "") -> list[Change]:
    """The settings in which two tables differ; the tables of a list are numbered, as for `--set`."""
    found = list[Change]()
    for key in sorted({*old, *new}):
        name, before, after = f"{where}{key}", old.get(key), new.get(key)
        if (_tables(before) or _tables(after)) and all(_tables(each) is not None for each in (before, after)):
            found += changes(_tables(before) or {}, _tables(after) or {}, f"{name}.")
        elif before != after:
            found.append(Change(name, before, after))
    return found


def _tables(value: Any) -> Mapping[str, Any] | None:
    """A table, or a list of tables by their numbers; empty if it is not set, None for another value."""
    if isinstance(value, list):
        items = cast(list[Any], value)
        is_of_tables = bool(items) and all(isinstance(each, Mapping) for each in items)
        return {str(number): each for number, each in enumerate(items)} if is_of_tables else None
    return cast(Mapping[str, Any], value) if isinstance(value, Mapping) else {} if value is None else None


def _shown(value: Any) -> str:
    return "not set" if value is None else repr(value)


def read(cls: type[Settings], table: Mapping[str, Any], where: str = "") -> Settings:
    """Reads a table into the frozen dataclass `cls`.

    Annotations can be nested dataclasses, `Literal`, unions, tuples and `Path`; an integer is accepted as a
    float. `where` is the dotted name of the table, for messages.

    Raises:
        RecipeError: a key is unknown or missing, or a value has the wrong type or is out of range.
    """
    assert dataclasses.is_dataclass(cls), cls
    fields = {field.name: field for field in dataclasses.fields(cls)}
    hints = typing.get_type_hints(cls)
    for key in table:
        if key not in fields:
            within = next(_within(hints, key), None)
            hint = f"did you mean {_name(where, within)!r}?" if within else did_you_mean(key, fields)
            raise UnknownKeyError(_name(where, key), hint)
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in table:
            raise RecipeError(f"{_name(where, name)} is missing", f"add it: {type_description(hints[name])}")
    values = {key: _read_value(hints[key], value, _name(where, key)) for key, value in table.items()}
    try:
        return cls(**values)
    except (ConfigError, RecipeError) as error:
        named = not where or where in error.message
        raise RecipeError(error.message if named else f"{where}: {error.message}", error.hint) from None


def check_types(settings: Any, where: str = "", *, kind: type[UserError] = RecipeError) -> None:
    """Refuses settings that Python made with values which `read` would refuse, by the same check.

    To be called first in `__post_init__` of a frozen dataclass. Lists become tuples; integers become floats
    where the annotation is float, numbers of NumPy become Python's, and paths become strings.

    Raises:
        UserError: one of `kind`; a value has the wrong type, or is NaN or infinite.
    """
    right = _right_defaults(type(settings))
    for name, hint in _type_hints(type(settings)).items():
        value = getattr(settings, name)
        if value is right.get(name, dataclasses.MISSING):  # quick: a server makes settings for each request
            continue
        full_name = _name(where, name)
        sections = _sections(hint)
        if isinstance(value, tuple(sections)):
            continue
        if sections and not (value is None and type(None) in typing.get_args(hint)):
            wanted = sections[0].__name__
            raise kind(f"{full_name} must be {wanted}, not {value!r}", f"give {wanted}(...)")
        try:
            object.__setattr__(settings, name, _read_value(hint, _plain(value), full_name))
        except RecipeError as error:
            raise kind(error.message, error.hint) from None


def _sections(hint: Any) -> list[type[Any]]:
    """The dataclasses that an annotation allows."""
    kinds = (hint, *typing.get_args(hint))
    return [typing.cast(type, each) for each in kinds if dataclasses.is_dataclass(each)]


@functools.cache
def _type_hints(cls: type[Any]) -> dict[str, Any]:
    """The annotations of the fields of a dataclass that its `__init__` sets."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


@functools.cache
def _right_defaults(cls: type[Any]) -> dict[str, Any]:
    """The defaults of the fields that have the type of the field."""
    hints, found = _type_hints(cls), {}
    for field in dataclasses.fields(cls):
        with contextlib.suppress(RecipeError):
            if field.init and type(_read_value(hints[field.name], field.default, "")) is type(field.default):
                found[field.name] = field.default
    return found


def _plain(value: Any) -> Any:
    """A number of NumPy as Python's, a path as text, also those in a list; anything else as it is."""
    if type(value) in (bool, int, float):
        return value
    if isinstance(value, PurePath):
        return str(value)
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return int(value) if isinstance(value, Integral) else float(value) if isinstance(value, Real) else value


def places(cls: type[Any], key: str) -> list[str]:
    """The dotted names of `key` in the sections of a dataclass, the outer ones first."""
    return list(dict.fromkeys(_within(typing.get_type_hints(cls), key)))


def _within(hints: Mapping[str, Any], key: str) -> Iterator[str]:
    """The dotted names of `key` in the sections of these types, the outer ones first."""
    sections = [
        (name, typing.get_type_hints(kind))
        for name, hint in hints.items()
        for kind in (hint, *typing.get_args(hint))
        if typing.get_origin(hint) is not tuple and dataclasses.is_dataclass(kind)
    ]
    yield from (f"{name}.{key}" for name, inner in sections if key in inner)
    for name, inner in sections:
        yield from (f"{name}.{each}" for each in _within(inner, key))


def _name(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _read_value(kind: Any, value: Any, name: str) -> Any:
    if type(value) is int and not -INTEGERS <= value < INTEGERS:
        raise RecipeError(f"{name} is too large an integer", "give one from -2^63 to 2^63 - 1")
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin is Literal:
        if value in arguments and type(value) in {type(choice) for choice in arguments}:
            return value
        hint = did_you_mean(value, map(str, arguments)) if isinstance(value, str) else type_description(kind)
        raise RecipeError(f"{name} must be {type_description(kind)}, not {value!r}", hint)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value, name, kind)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise _wrong(name, kind, value)
        return tuple(_read_value(arguments[0], each, f"{name}[{i}]") for i, each in enumerate(value))
    if origin is dict or kind is dict:
        if not isinstance(value, Mapping):
            raise _wrong(name, kind, value)
        return dict(value)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, Mapping):
            raise _wrong(name, kind, value)
        return read(typing.cast(type, kind), value, name)
    return _read_plain(kind, value, name)


def _read_union(choices: tuple[Any, ...], value: Any, name: str, kind: Any) -> Any:
    if value is None and type(None) in choices:
        return None
    some = [each for each in choices if each is not type(None)]
    of_its_form = some if len(some) == 1 else [each for each in some if _has_form(each, value)]
    if len(of_its_form) == 1:
        return _read_value(of_its_form[0], value, name)
    failure: RecipeError | None = None
    for choice in some:
        try:
            return _read_value(choice, value, name)
        except RecipeError as error:
            failure = error
    raise failure if failure and isinstance(value, Mapping) else _wrong(name, kind, value)


def _has_form(kind: Any, value: Any) -> bool:
    """True for a list of tables, or a table, where the type is one: then errors within it are named."""
    if isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
        return typing.get_origin(kind) is tuple and dataclasses.is_dataclass(typing.get_args(kind)[0])
    return isinstance(value, Mapping) and dataclasses.is_dataclass(kind)


def _read_plain(kind: Any, value: Any, name: str) -> Any:
    if kind is float and type(value) in (int, float) and not math.isfinite(value):
        raise RecipeError(f"{name} must be a finite number, not {value}", "NaN and infinity are not allowed")
    if kind is float and type(value) is int:
        return float(value)
    if kind is Path and isinstance(value, str):
        return Path(value)
    if type(value) is kind:  # not isinstance: True is not an integer here
        return value
    raise _wrong(name, kind, value)


def _wrong(name: str, kind: Any, value: Any) -> RecipeError:
    return RecipeError(
        f"{name} must be {type_description(kind)}, not {value!r}", f"write {name} as {type_description(kind)}"
    )


def type_description(kind: Any) -> str:
    """A description of the values of a type, for messages."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin in (Union, types.UnionType):
        return " or ".join(type_description(choice) for choice in arguments if choice is not type(None))
    if origin is tuple:
        return f"a list, each {type_description(arguments[0])}"
    if dataclasses.is_dataclass(kind) or origin is dict or kind is dict:
        return "a table"
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a string", Path: "a path"}
    return words.get(kind, str(kind))
