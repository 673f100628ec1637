"""Reading a recipe: its task decides which sections it has."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, RecipeError, meant
from regard.models.build import MODELS, config_class
from regard.peer_names import keys_called, with_unit
from regard.recipe import UnknownKeyError, apply_overrides, has_key, places, read, read_toml, removed_keys
from regard.verbs.shared.model_loading import model_path
from regard.verbs.shared.recipe_text import with_settings
from regard.verbs.shared.run_recipe import (
    RECIPE,
    base_of_model,
    base_of_run,
    edited_recipe,
    recorded,
    run_of,
)
from regard.verbs.tasks.kinds import KINDS
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.weights.checkpoint import RESOLVED, RunFolder

SEVERAL_CORPORA = "several corpora are tables [[data.train]], each with a weight or none: docs/training.md"
ONE_CORPUS = "this task trains on one corpus: join the files, a small one several times"
# keys by which a recipe would name several corpora
_MIXTURE = re.compile(
    r"data\.(train\.(weights?|shares?|ratios?|upsampl\w*|repeat)|train_?\d+|extra\w*|mix\w*)"
)


def load_recipe(path: Path, overrides: Sequence[str] = (), init: str | Path | None = None) -> RecipeFile:
    """Read a recipe strictly, with `section.key=value` overrides; `init`: the model to start from.

    Of a run folder it is the recipe of the run, with what was edited in its `recipe.toml` since.

    Raises:
        RecipeError: a setting is unknown or wrong; with the name of the file and the setting.
    """
    if (path / RESOLVED).is_file():
        return _of_run(path, edited_recipe(path), overrides, init)
    before, text = read_toml(path)
    if not before and not overrides:
        raise RecipeError(
            f"{path}: the recipe is empty", "start from one that runs: `regard recipes show reverse`"
        )
    folder = path.absolute().parent
    base = (base_of_model(folder) if path.name == RECIPE else None) or folder
    table = with_init(apply_overrides(before, overrides), init, base)
    found = recipe_from(table, text, base, str(path))
    _refuse_unknown_removed(found, removed_keys(overrides))
    try:
        refuse_unused_settings(found.recipe)
    except (ConfigError, RecipeError) as error:
        raise RecipeError(f"{path}: {error.message}", error.hint) from None
    return dataclasses.replace(found, text=with_settings(text, table))


def _refuse_unknown_removed(source: RecipeFile, keys: Sequence[str]) -> None:
    """Raise an UnknownKeyError for a key that an override removes and that no recipe of this task has."""
    config = config_class(source.recipe.chosen_model_kind)
    of_model = {"kind", "preset", "init", *(each.name for each in dataclasses.fields(config))}
    for key in keys:
        section, _, name = key.partition(".")
        known = name in of_model if section == "model" and name else has_key(type(source.recipe), key)
        if not known:
            error = UnknownKeyError(key, "remove a key of the recipe: regard recipes keys lists them")
            raise UnknownKeyError(key, _elsewhere(source.table, error))


def refuse_unused_settings(recipe: Recipe) -> None:
    """Refuse what has no effect in a new recipe. Those of runs and models are read as they are.

    Raises:
        ConfigError, RecipeError: a setting has no effect beside the others; names it.
    """
    config_class(recipe.chosen_model_kind).refuse_unused(recipe.model)
    waiting: list[Any] = [recipe]
    while waiting:
        settings = waiting.pop()
        if (refuse := getattr(settings, "refuse_unused", None)) is not None:
            refuse()
        inner = (getattr(settings, field.name) for field in dataclasses.fields(settings))
        waiting.extend(each for each in inner if dataclasses.is_dataclass(each))


def load_run(run: Path) -> RecipeFile:
    """The recipe of a run folder as the run was trained last."""
    return _of_run(run, None)


def _of_run(
    run: Path,
    edited: tuple[dict[str, Any], str] | None,
    overrides: Sequence[str] = (),
    init: str | Path | None = None,
) -> RecipeFile:
    """The recipe that a run folder has recorded, or the table and text `edited`, with these overrides."""
    before, text = edited or (recorded(run)["recipe"], RunFolder(run).recipe() or "")
    base = base_of_run(run)
    table = with_init(apply_overrides(before, overrides), init, base)
    return recipe_from(table, with_settings(text, table), base, str(run / RECIPE if edited else run))


def recipe_of(model: Path) -> RecipeFile:
    """The recipe that the model in a folder was trained by; its paths are relative to the first recipe.

    For a model outside its run folder they are relative to the current folder.
    """
    if (run := run_of(model)) is not None:
        return load_run(run)
    table, text = read_toml(model / RECIPE)
    return recipe_from(table, text, Path.cwd(), str(model / RECIPE))


def with_init(table: Mapping[str, Any], init: str | Path | None, base: Path | None = None) -> dict[str, Any]:
    """The table of a recipe whose model starts from `init`, in place of a preset.

    The path is relative to `base`, the folder of the recipe, if the model is within it.

    Raises:
        FolderError: there is no such model.
    """
    model = table.get("model", {})
    if init is None or not isinstance(model, Mapping):
        return dict(table)
    others = {name: value for name, value in model.items() if name != "preset"}
    path = model_path(init).absolute()
    if base is not None and base in path.parents:
        path = path.relative_to(base)
    return {**table, "model": {**others, "init": str(path)}}


def with_overrides(source: RecipeFile, overrides: Sequence[str]) -> RecipeFile:
    """The recipe with other settings, also in its text."""
    table = apply_overrides(source.table, overrides)
    return recipe_from(table, with_settings(source.text, table), source.base, source.recipe.name)


def recipe_from(table: Mapping[str, Any], text: str, base: Path, where: str) -> RecipeFile:
    try:
        recipe = read(_recipe_class(table), table)
        _refuse_keys_of_sections(type(recipe), table)
    except UnknownKeyError as error:
        hint = _mixture_hint(table) if _MIXTURE.fullmatch(error.key) else _elsewhere(table, error)
        raise RecipeError(f"{where}: {error.message}", hint) from None
    except RecipeError as error:
        is_of_corpora = "data.train" in error.message and _has_several_corpora(table)
        hint = _mixture_hint(table) if is_of_corpora else error.hint
        raise RecipeError(f"{where}: {error.message}", hint) from None
    return RecipeFile(recipe=recipe, table=dict(table), text=text, base=base)


def _mixture_hint(table: Mapping[str, Any]) -> str:
    """How the task of this recipe trains on several corpora."""
    return SEVERAL_CORPORA if _recipe_class(table) in _of_corpora() else ONE_CORPUS


def _of_corpora() -> list[type[Recipe]]:
    """The recipes of tasks that train on several corpora."""
    return [KINDS[task].recipe for task in ("translation", "language_model", "masked_language_model")]


def _has_several_corpora(table: Mapping[str, Any]) -> bool:
    """True if `[data]` has lists of files to train on, or of corpora in a task that trains on one."""
    data = table.get("data")
    train = data.get("train") if isinstance(data, Mapping) else None
    if isinstance(train, Mapping):
        reads_lists = _recipe_class(table) in _of_corpora()[1:]  # of documents: those are one corpus
        lists = ("source", "target") if reads_lists else ("source", "target", "file")
        return any(isinstance(train.get(name), list) for name in lists)
    return isinstance(train, list) and _mixture_hint(table) != SEVERAL_CORPORA


def _refuse_keys_of_sections(recipe: type[Recipe], table: Mapping[str, Any]) -> None:
    """Raise an UnknownKeyError for a key of `[model]` that no model has, but another section.

    Other unknown keys are refused when the kind of model is known.
    """
    configs = [config_class(kind) for kind in MODELS]
    known = {
        "kind",
        "preset",
        "init",
        *(each.name for config in configs for each in dataclasses.fields(config)),
    }
    for key in table.get("model", {}):
        if key not in known and places(recipe, key):
            raise UnknownKeyError(f"model.{key}", "")


def _elsewhere(table: Mapping[str, Any], error: UnknownKeyError) -> str:
    """The hint for an unknown key: the sections that have a key of this name, or of what peers call so.

    Those of its own section come first.
    """
    recipe, key = _recipe_class(table), error.key.rpartition(".")[2]
    model = table.get("model")
    kind = model.get("kind") if isinstance(model, Mapping) else None
    config = config_class(kind if isinstance(kind, str) and kind in MODELS else recipe.model_kind)
    in_model = {f"model.{field.name}" for field in dataclasses.fields(config)}
    own = f"{error.key.rpartition('.')[0]}."
    named = dict.fromkeys([f"model.{key}", *places(recipe, key), *keys_called(key)])
    known = [name for name in named if name in in_model or name in places(recipe, name.rpartition(".")[2])]
    known.sort(key=lambda name: not name.startswith(own))
    quoted = [repr(name) if name.endswith(f".{key}") else with_unit(name) for name in known]
    return meant(quoted) if known else error.hint


def _recipe_class(table: Mapping[str, Any]) -> type[Recipe]:
    task = table.get("task", {})
    kind = task.get("kind", "translation") if isinstance(task, Mapping) else task
    if not isinstance(task, Mapping) or not isinstance(kind, str):
        raise RecipeError(f"task must be a table with a kind, not {kind!r}", "write [task], then kind = ...")
    if kind not in KINDS:
        raise RecipeError(f"no kind of task {kind!r}", KINDS.hint(kind))
    return KINDS[kind].recipe
