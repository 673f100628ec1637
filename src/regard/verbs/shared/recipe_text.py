"""The text of a recipe: values in TOML, and a text changed to other settings that keeps its comments."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from regard.errors import RecipeError

Keys = tuple[str, ...]  # the path of a setting: ("training", "schedule", "kind")

LONGEST_OLD_VALUE = 30  # characters of a value that a comment repeats
_ABSENT = object()
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_DOTTED_KEY = re.compile(r"\s*([A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)\s*=")


def toml(value: Any) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise RecipeError(
                f"{value!r} cannot be written in UTF-8, the encoding of a recipe", "rename the file"
            ) from None
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(str(key))} = {toml(each)}" for key, each in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list | tuple) else repr(value)


def commented(setting: str, comment: str) -> str:
    """A line of a recipe, with its comment in the column of all comments."""
    return f"{setting:<35}  # {comment}" if comment else setting


def with_settings(text: str, table: Mapping[str, Any]) -> str:
    """The text of a recipe changed so that it reads as `table`.

    A changed line says what was there. If single lines cannot be changed, as in a text with arrays of
    tables, all of it is written again, without comments.
    """
    before = tomllib.loads(text)
    if before == table:
        return text
    changed = _EditedText(text, before, table).text() if before else None
    if changed is None or _read(changed) != table:
        return _written("", table).lstrip("\n")
    return changed


class _EditedText:
    """The statements of a TOML text by section, to be changed one by one."""

    def __init__(self, text: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        self._before, self._after = before, after
        self._sections: dict[Keys, list[str]] = {(): []}  # the lines of each, its header among them
        self._text, self._written = text, set[Keys]()

    def text(self) -> str | None:
        """The changed text; None if there is a statement that cannot be changed."""
        section: Keys = ()
        for statement in _statements(self._text):
            start = statement.lstrip()
            if start.startswith("[["):
                section = _path_of_header(statement.replace("[[", "[").replace("]]", "]"))
                if _at(self._before, section) != _at(self._after, section):
                    return None
                self._written.add(section)
                section = (*section, f"[{len(self._sections)}]")  # a name that no table has
                self._sections[section] = [statement]
                continue
            if start.startswith("["):
                section = _path_of_header(statement)
                self._sections[section] = [statement]
                continue
            is_setting = start and start[0] != "#" and not (section and section[-1][0] == "[")
            changed = self._changed(statement, section) if is_setting else statement
            if changed is None:
                return None
            self._sections[section].append(changed)
        self._add_new()
        return "".join(line for lines in self._sections.values() for line in lines)

    def _changed(self, statement: str, section: Keys) -> str | None:
        """The statement of a setting with its new value; empty if the setting is gone."""
        key = _DOTTED_KEY.match(statement)
        if key is None:
            return None
        path = (*section, *key[1].split("."))
        self._written.add(path)
        old, new = _at(self._before, path), _at(self._after, path)
        if new is _ABSENT:
            return ""
        if old == new and type(old) is type(new):
            return statement
        comment = _comment_of(statement)
        was = toml(old)
        was = f"was {was}" if len(was) <= LONGEST_OLD_VALUE else "changed"
        return commented(f"{key[1]} = {toml(new)}", f"{was}: {comment}" if comment else was) + "\n"

    def _add_new(self) -> None:
        """Add the settings that the text does not have to the end of their sections."""
        for path, value in _leaves(self._after):
            if any(path[:length] in self._written for length in range(1, len(path) + 1)):
                continue
            section = path[:-1]
            if section not in self._sections:
                self._sections[section] = [f"\n[{'.'.join(map(_key, section))}]\n"]
            lines = self._sections[section]
            if lines and not lines[-1].endswith("\n"):
                lines[-1] += "\n"
            end = len(lines)
            while end and not lines[end - 1].strip():
                end -= 1
            lines.insert(end, commented(f"{_key(path[-1])} = {toml(value)}", "added") + "\n")


def _statements(text: str) -> Iterator[str]:
    """The text in pieces that are TOML by themselves: a line, or the lines of one value."""
    piece = ""
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        piece += line
        if _read(piece) is not None:
            yield piece
            piece = ""
    assert not piece, piece


def _read(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _path_of_header(statement: str) -> Keys:
    table, path = tomllib.loads(statement), list[str]()
    while table:
        [(key, table)] = table.items()
        path.append(key)
    return tuple(path)


def _comment_of(statement: str) -> str:
    """The comment at the end of a setting; empty if there is none."""
    for place, character in enumerate(statement):
        if character == "#" and _read(statement[:place]):
            return statement[place + 1 :].strip()
    return ""


def _at(table: Mapping[str, Any], path: Keys) -> Any:
    found: Any = table
    for key in path:
        found = found.get(key, _ABSENT) if isinstance(found, Mapping) else _ABSENT
    return found


def _leaves(table: Mapping[str, Any], path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """The settings of nested tables, each with its path."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*path, key))
        else:
            yield (*path, key), value


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else toml(name)


def _written(name: str, table: Mapping[str, Any]) -> str:
    """A table as TOML: its settings, then its sections and lists of tables."""
    lines, prefix = [f"\n[{name}]\n"] if name else [], f"{name}." if name else ""
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping) or _is_tables(value)}
    lines += _settings({key: value for key, value in table.items() if key not in inner})
    for key, value in inner.items():
        own = f"{prefix}{_key(key)}"
        if isinstance(value, Mapping):
            lines.append(_written(own, value))
        else:
            lines += [line for each in value for line in (f"\n[[{own}]]\n", *_settings(each))]
    return "".join(lines)


def _settings(table: Mapping[str, Any]) -> list[str]:
    return [f"{_key(key)} = {toml(value)}\n" for key, value in table.items()]


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)
