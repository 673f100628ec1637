"""Reads the settings of a toolkit's checkpoint one by one, with types; those not read are refused."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from regard.errors import FolderError, did_you_mean

Setting = TypeVar("Setting")
BOOLEANS = {"true": True, "false": False}
NOTHING = (None, "null", "~", "none", "None")
ABSENT: Any = object()


class Settings:
    """A table of settings; values are those of JSON, or texts as YAML has them.

    `where` names the file in messages, `path` the table within it.
    """

    def __init__(self, table: Mapping[str, Any], where: str, path: str = "") -> None:
        self.table, self.where, self.path = table, where, path
        self._read: set[str] = set()

    def take(self, kind: type[Setting], name: str, default: Any = ABSENT) -> Setting:
        """The value of a setting, else `default`; FolderError if it is needed and absent."""
        found = self.optional(kind, name)
        if found is None and default is ABSENT:
            raise FolderError(f"{self.where}: {self.path}{name} is missing", "copy the checkpoint again")
        return default if found is None else found

    def optional(self, kind: type[Setting], name: str) -> Setting | None:
        """The value of a setting; None if it is absent or null."""
        self._read.add(name)
        value = self.table.get(name)
        if value is None or (kind is not str and value in NOTHING) or (kind is not str and value == ""):
            return None
        converted = _converted(kind, value)
        if converted is None:
            raise self.refusal(name, f"give a value of type {kind.__name__}")
        return converted

    def choice(self, known: Mapping[str, Setting], name: str, default: Any = ABSENT) -> Setting:
        """The value in `known` for the word of a setting."""
        word = self.take(str, name, default)
        if word not in known:
            raise self.refusal(name, did_you_mean(str(word), known))
        return known[word]

    def must_be(self, name: str, *values: object, hint: str = "") -> None:
        """Refuses a setting with another value than `values`; absent or null are as the first of them."""
        self._read.add(name)
        found = self.table.get(name)
        if found in NOTHING or any(_same(found, value) for value in values):
            return
        raise self.refusal(name, hint or (f"only {values[0]!r} is" if values else "only null is"))

    def ignore(self, *names: str) -> None:
        """Accepts settings that do not change what a trained model computes."""
        self._read.update(names)

    def section(self, name: str) -> "Settings":
        """The settings of a table within this one; `finish` it, too."""
        self._read.add(name)
        table = self.table.get(name)
        if not isinstance(table, Mapping):
            raise FolderError(f"{self.where}: {self.path}{name} is not a table", "copy the checkpoint again")
        return Settings(table, self.where, f"{self.path}{name}.")

    def file(self, name: str, folder: Path) -> Path:
        """The file that a setting names, which is in the checkpoint's folder, wherever it was in training.

        Raises:
            FolderError: it is not there.
        """
        named = self.take(str, name)
        path = folder / Path(named).name
        if not path.is_file():
            raise FolderError(
                f"{path} is missing; {self.where} names it: {self.path}{name} = {named!r}",
                "copy it from where the model was trained:"
                f" cp {shlex.quote(named)} {shlex.quote(str(folder))}",
            )
        return path

    def refusal(self, name: str, hint: str) -> FolderError:
        """The error for a value that is not supported."""
        value = self.table.get(name)
        return FolderError(f"{self.where}: {self.path}{name} = {str(value)[:80]!r} is not supported", hint)

    def finish(self) -> None:
        """Refuses settings that were not read."""
        if unknown := sorted(set(map(str, self.table)) - self._read):
            value = str(self.table.get(unknown[0]))[:80]
            raise FolderError(
                f"{self.where}: the setting {self.path}{unknown[0]} = {value!r} is unknown to regard",
                "it could change the model's output, so the checkpoint is not converted",
            )


def _converted(kind: type, value: Any) -> Any:
    """`value` as `kind`; None if it is not one."""
    if kind is bool and isinstance(value, str):
        return BOOLEANS.get(value.lower())
    if kind in (int, float) and isinstance(value, str):
        try:
            return kind(value)
        except ValueError:
            return None
    if kind is float and type(value) is int:
        return float(value)
    if kind is str and type(value) in (int, float):
        return str(value)
    return value if type(value) is kind and not (kind is int and abs(value) >= 2**62) else None


def _same(found: Any, value: object) -> bool:
    """True if a setting, which may be text, has this value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return not isinstance(found, bool) and _converted(float, found) == value
    if isinstance(value, bool) and isinstance(found, str):
        return found.lower() == str(value).lower()
    return type(found) is type(value) and found == value
