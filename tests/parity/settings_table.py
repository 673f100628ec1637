"""Rows of the documented tables of families and settings, and what each cell is found to be."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from regard.errors import FolderError
from regard.models.config import ModelConfig
from regard.weights.families.family import ConfigReader, canonical
from regard.weights.pretrained import FAMILIES, load_pretrained
from tests.parity.cases import SMALLEST, Case, flat, nested, smallest
from tests.parity.pairs import Pair, are_equal, config_of, flat_config_of, generates_the_same

EQUAL, REFUSED, ABSENT = "equal", "refused", "–"
Make = Callable[[Case], Pair]
Settings = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A row: some value of a setting of config.json."""

    label: str  # as on the page
    changes: Settings  # of config.json; `architectures` names the class of transformers
    of: Mapping[str, Settings] = field(default_factory=dict)  # family -> other changes that mean the same
    names: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # family -> its names of settings
    towers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # family -> objects that may have it
    holds: Callable[[Settings], bool] | None = None  # if a config.json has it; else: if it has these changes
    families: tuple[str, ...] | None = None  # that have it; None: those whose config in transformers has it
    named: str = ""  # what an error that refuses it may name besides the changed settings
    files: Mapping[str, str] = field(default_factory=dict)  # others of the folder
    older: bool = False  # the changes are those of an older config.json; None: it has no such setting
    decoded: Settings | None = None  # settings of generation_config.json, by which outputs are generated
    idle: bool = False  # it changes no output

    def changed(self, family: str) -> dict[str, Any]:
        """The settings of the row as the family has them."""
        if family in self.of:
            return dict(self.of[family])
        names, towers = self.names.get(family, {}), self.towers.get(family, ())
        changes = {names.get(name, name): value for name, value in self.changes.items()}
        if not towers:
            return changes
        return {f"{tower}.{name}": value for tower in towers for name, value in changes.items()}

    def of_each_tower(self, family: str) -> list["Setting"]:
        """The row of one tower alone, for each that may have the setting; else the row."""
        towers = self.towers.get(family, ())
        if len(towers) < 2:
            return [self]
        return [
            replace(self, label=f"{self.label}, {tower}", towers={**self.towers, family: (tower,)})
            for tower in towers
        ]

    def is_of(self, family: str) -> bool:
        """True if the family has such a setting."""
        import transformers

        if self.families is not None:
            return family in self.families
        changes = self.changed(family)
        if "architectures" in changes:
            return all(hasattr(transformers, name) for name in changes["architectures"])
        return any(name in settings_of(family) for name in changes)

    def found_in(self, case: Case) -> bool:
        """True if the case has this setting."""
        if self.holds is not None:
            return self.holds(case.written)
        changes = self.changed(case.family)
        return changes != {} and all(
            name in case.written and case.written[name] == value for name, value in changes.items()
        )

    def is_named_in(self, error: FolderError, family: str) -> bool:
        """True if an error names a setting of the row, or its class of transformers."""
        changes = self.changed(family)
        rotary = changes.get("rope_parameters") or {}
        names = {*changes, *rotary, *changes.get("architectures", ()), self.named or self.label}
        names -= {"architectures", "rope_theta", "rope_type"}
        return any(all(part in error.message for part in name.split(".")) for name in names)


@dataclass(frozen=True, kw_only=True)
class SettingsTable:
    """A table of the page: settings are rows, families are columns."""

    title: str
    families: tuple[str, ...]
    settings: tuple[Setting, ...]
    cases: tuple[Case, ...]  # that are compared in all that they compute


@cache
def settings_of(family: str) -> Settings:
    """The settings of a family's config in transformers, with their defaults."""
    import transformers

    return flat(json.loads(transformers.CONFIG_MAPPING[family]().to_json_string(use_diff=False)))


def cell(setting: Setting, family: str, cases: Iterable[Case], make: Make) -> str:
    """What is found, of each tower for itself: the cell of the table, or in other words what is wrong."""
    found = [cell_of(each, family, cases, make) for each in setting.of_each_tower(family)]
    return " and ".join(dict.fromkeys(found))


def cell_of(setting: Setting, family: str, cases: Iterable[Case], make: Make) -> str:
    """What is found of all changes at once."""
    base = make(smallest(family, {}))
    has_it, changes = setting.is_of(family), setting.changed(family)
    if not has_it and (setting.older or "architectures" in changes):
        return ABSENT
    with edited(base, setting, family) as folder:
        try:
            config = read_config(base, folder)
        except FolderError as error:
            if setting.is_named_in(error, family):
                return REFUSED if has_it and is_refused(folder) else "read" if has_it else ABSENT
            config = None  # transformers may write other settings, too
    if not has_it:  # so transformers ignores it
        is_same = config is not None and canonical(config) == canonical(base.config)
        return ABSENT if is_same else "read, or refused without its name"
    try:
        return compared(setting, make(case_of(setting, family, cases, base)), base)
    except FolderError as error:
        named = setting.is_named_in(error, family)
        return REFUSED if named else f"refused without its name: {error.message}"


def case_of(setting: Setting, family: str, cases: Iterable[Case], base: Pair) -> Case:
    """The first of `cases` that has the setting; else the smallest model, which may have it as it is."""
    for case in cases:
        if case.family == family and setting.found_in(case):
            return case
    changes, usual = setting.changed(family), flat_config_of(base.folder)
    if setting.older:
        return smallest(family, {}, name=setting.label, older=changes)
    if not setting.files and all(name in usual and usual[name] == changes[name] for name in changes):
        return smallest(family, {})
    return smallest(family, changes, name=setting.label, files=setting.files)


def compared(setting: Setting, pair: Pair, base: Pair) -> str:
    """What is found of a model with a setting; `base` is the family's smallest model."""
    if setting.decoded is not None:
        return EQUAL if generates_the_same(pair, setting.decoded) else "different"
    if (
        not setting.idle
        and has_other_settings(pair, base, setting)
        and (canonical(pair.config) == canonical(base.config))
    ):
        return "ignored"
    return EQUAL if are_equal(pair) else "different"


@contextmanager
def edited(base: Pair, setting: Setting, family: str) -> Iterator[Path]:
    """A copy of the folder of the smallest model, with the settings of a row in its config.json."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        shutil.copytree(base.folder, path, copy_function=os.link)
        table = nested(flat_config_of(base.folder) | setting.changed(family))
        if setting.older:
            table = {name: value for name, value in table.items() if value is not None}
        for name, text in {**setting.files, "config.json": json.dumps(table)}.items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).unlink(missing_ok=True)
            (path / name).write_text(text, "utf-8")
        yield path


def read_config(base: Pair, folder: Path) -> ModelConfig:
    """What the folder's files describe; its weights, which may be of other shapes, are not read.

    Raises:
        FolderError: a setting is refused.
    """
    family = FAMILIES[base.pretrained.family]
    names = {name for entry in family.table(base.config) for name in entry.hf}
    settings = ConfigReader(config_of(folder), str(folder / "config.json"))
    found = family.read(settings, names)
    settings.finish()
    return family.with_other_files(found, folder).config


def is_refused(folder: Path) -> bool:
    """True if the whole folder is refused, too."""
    try:
        load_pretrained(folder)
    except FolderError:
        return True
    return False


def has_other_settings(pair: Pair, base: Pair, setting: Setting) -> bool:
    """True if the row changes the config.json of transformers; a default may be a row, too."""
    own, usual = flat_config_of(pair.folder), flat_config_of(base.folder)
    return any(own.get(name) != usual.get(name) for name in setting.changed(pair.pretrained.family))


QUANTISED = Setting(
    label="quantised weights (`quantization_config`)",
    changes={"quantization_config": {"quant_method": "gptq", "bits": 4}},
    families=tuple(SMALLEST),
)
PREFIXES = {
    "gemma3_text": "Gemma3Text",
    **{
        family: model.split("For")[0].removesuffix("Model").removesuffix("LMHead").removesuffix("MT")
        for family, (model, _) in SMALLEST.items()
        if family != "gemma3_text"
    },
}


def of_class(
    label: str, *suffixes: str, families: Iterable[str], idle: bool = False, **settings: Any
) -> Setting:
    """A row for classes of transformers, the first that a family has of those with these suffixes."""
    import transformers

    def name(family: str) -> str:
        names = [PREFIXES[family] + suffix for suffix in suffixes]
        return next((each for each in names if hasattr(transformers, each)), names[0])

    of = {family: {"architectures": [name(family)], **settings} for family in families}
    return Setting(label=label, changes={}, of=of, idle=idle)
