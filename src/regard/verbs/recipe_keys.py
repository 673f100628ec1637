"""The keys of all recipes: which tables there are, which tasks and models have them, and as text."""

import dataclasses
import re
import textwrap
import typing
from collections.abc import Iterator
from dataclasses import dataclass

from regard.errors import RecipeError, did_you_mean
from regard.layers.rotary_scaling import SCALINGS
from regard.models.build import MODELS
from regard.models.config import ModelConfig, TransformerConfig
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.settings_source import Key, about, keys_of, own_names, sections_in, tables_in
from regard.verbs.tasks.kinds import KINDS
from regard.verbs.tasks.recipe import Recipe


@dataclass(frozen=True, kw_only=True)
class Section:
    """A table of TOML: the names under which recipes have it, what it is for, its keys."""

    title: str  # code between backticks
    name: str  # of its place in the page
    about: str
    keys: list[Key]

    @property
    def tables(self) -> list[str]:
        """The names of its tables; empty for the first lines of a recipe."""
        return re.findall(r"\[([\w.]+)\]", self.title)

    def is_in(self, table: str) -> bool:
        """True if one of its tables has this name, or is below the table of this name."""
        return any(f"{name}.".startswith(f"{table}.") for name in self.tables)


WIDTH = 100  # characters of a line


@checked
def recipes_keys(table: str | None = None) -> str:
    """The keys of all recipes, as text: their types, their defaults and what they mean.

    Args:
        table: the tables of this name only, such as "training", with those below it: "training.schedule".

    Raises:
        RecipeError: no recipe has this table; the hint is the most similar name.
    """
    groups = {**recipe_sections(), "Models": model_sections()}
    if table is None:
        chosen = groups
    else:
        name = table.strip("[]")
        chosen = {
            heading: [each for each in sections if each.is_in(name)] for heading, sections in groups.items()
        }
        if not any(chosen.values()):
            known = {one for sections in groups.values() for each in sections for one in each.tables}
            raise RecipeError(f"no recipe has a table {table!r}", did_you_mean(name, known))
    parts = [
        "\n\n".join([f"# {heading}", *map(_section_text, sections)])
        for heading, sections in chosen.items()
        if sections
    ]
    return "\n\n".join(parts) + "\n"


def _section_text(section: Section) -> str:
    title = textwrap.fill(section.title.replace("`", ""), WIDTH)
    about = [textwrap.fill(section.about, WIDTH)] if section.about else []
    return "\n".join([title, *about, *map(_key_text, section.keys)])


def _key_text(key: Key) -> str:
    default = f", {key.default}" if key.default in ("required", "not set") else f", default {key.default}"
    meaning = textwrap.fill(key.meaning, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return f"  {key.name}: {key.kind}{default}" + (f"\n{meaning}" if key.meaning else "")


def recipe_sections() -> dict[str, list[Section]]:
    """The sections by heading: those of all recipes, of several tasks, then of each task."""
    places = _places()
    found: dict[str, list[Section]] = {"Every recipe": [], "Recipes of several tasks": []}
    found |= {_spoken(task).capitalize(): [] for task in KINDS}
    for cls, by_task in places.items():
        names = [name for names in by_task.values() for name in names]
        tasks = list(by_task)
        heading = "Every recipe" if set(KINDS) <= set(tasks) else "Recipes of several tasks"
        heading = _spoken(tasks[0]).capitalize() if len(tasks) == 1 else heading
        tables = list(dict.fromkeys(names))
        title = ", ".join(f"`[{name}]`" for name in tables) if tables != [""] else "The first lines"
        title += f" ({', '.join(map(_spoken, tasks))})" if heading == "Recipes of several tasks" else ""
        place = tables[0].replace("[", "each-").replace("]", "").replace(".", "-") or "recipe"
        anchor = "-".join([place, *(tasks if len(tasks) < len(KINDS) else [])])
        keys = keys_of(cls)
        if keys:
            found[heading].append(Section(title=title, name=f"key-{anchor}", about=about(cls), keys=keys))
    return {heading: sections for heading, sections in found.items() if sections}


def _spoken(task: str) -> str:
    return task.replace("_", " ")


def _places() -> dict[type, dict[str, list[str]]]:
    """Each settings class with the tables that it describes, by task."""
    found: dict[type, dict[str, list[str]]] = {Recipe: {task: [""] for task in KINDS}}
    for task, kind in KINDS.items():
        for name, cls in _tables(kind.recipe, ""):
            found.setdefault(cls, {}).setdefault(task, []).append(name)
    return found


def _tables(cls: type, where: str) -> Iterator[tuple[str, type]]:
    hints = typing.get_type_hints(cls)
    for field in dataclasses.fields(cls):
        for below in sections_in(hints[field.name]):
            name = f"{where}{field.name}"
            yield name, below
            yield from _tables(below, f"{name}.")
        for below in tables_in(hints[field.name]):
            yield f"[{where}{field.name}]", below


def model_sections() -> list[Section]:
    """`[model]`: what all Transformers share, each kind of model, the scalings of rotary positions."""
    shared = keys_of(TransformerConfig)
    found = [
        Section(
            title="`[model]` of every Transformer",
            name="key-model",
            about="All kinds of model but gat and recurrent have these; a kind may have another default.",
            keys=shared,
        )
    ]
    for kind, (cls, _) in MODELS.items():
        found.append(
            Section(
                title=f'`[model] kind = "{kind}"`',
                name=f"key-model-{kind}",
                about=f"{about(cls)}{_presets(cls)}",
                keys=_keys_of_kind(cls, shared if issubclass(cls, TransformerConfig) else []),
            )
        )
    for kind, scaling in SCALINGS.items():
        found.append(
            Section(
                title=f'`[model.rotary_scaling] kind = "{kind}"`',
                name=f"key-rotary-scaling-{kind}",
                about=about(scaling),
                keys=keys_of(scaling),
            )
        )
    return found


def _presets(cls: type[ModelConfig]) -> str:
    return f" Presets, for `preset`: {', '.join(f'`{name}`' for name in cls.presets)}." if cls.presets else ""


def _keys_of_kind(cls: type[ModelConfig], shared: list[Key]) -> list[Key]:
    """The keys that only this kind has, then those with another default."""
    known = {key.name: key for key in shared}
    keys = [key for key in keys_of(cls) if known.get(key.name) != key]
    own = set(own_names(cls))
    return sorted(keys, key=lambda key: (key.name in known, key.name not in own))
