"""Settings of a call that change how a model is scored on the test data of its recipe."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from regard.counted import counted
from regard.data.files import locate
from regard.data.labelled import LabelledSettings, LabelledTable
from regard.data.tables import format_by_name, open_table
from regard.decoding.control import controls_of
from regard.decoding.control_fields import Beam
from regard.decoding.settings import GenerationSettings
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.recipe import read_toml
from regard.verbs.generation.controls import Controls
from regard.verbs.generation.decoding_defaults import decoding_defaults
from regard.verbs.proposals.columns import roles_of
from regard.verbs.shared.run_recipe import RECIPE
from regard.verbs.tasks.recipe import RecipeFile
from regard.weights.model_folder import LoadedModel


def changed_generation(loaded: LoadedModel, controls: Controls) -> dict[str, Any]:
    """The generation.json of a model with these controls.

    Raises:
        UserError: the test data of such a model are not decoded, or a control is not for its decoding.
    """
    if isinstance(loaded.model, SequenceToSequence):
        return decoding_defaults(GenerationSettings, loaded).changed(controls).to_dict()
    asked = {name: value for name, value in vars(controls).items() if value not in (None, ())}
    known = controls_of(Beam) if loaded.config.generates and not isinstance(loaded.model, DecoderOnly) else ()
    for name in asked:
        if name not in known:
            what = "has no beam search" if not known else f"is decoded with {', '.join(known)} alone"
            raise UserError(f"{loaded.path}: on its test data this model {what}", f"leave {name} out")
    return {**loaded.generation, **asked}


def with_table(source: RecipeFile, data: str | None, columns: Sequence[str]) -> tuple[RecipeFile, str | None]:
    """The recipe whose test data are the table `data`, and None; or both as they are, for other data.

    A table need not have the format and the columns of the recipe's files: as in `regard new`, text and
    label are found by name or content, unless `columns` names them, and texts without a label are skipped.

    Raises:
        UserError: the recipe reads no labelled texts, but `columns` are given; or they are not two.
        DataError: the columns cannot be detected, or do not exist.
    """
    parts: Any = getattr(source.recipe, "data", None)
    files = [each for part in ("test", "train") if (each := getattr(parts, part, None)) is not None]
    settings = next((each for each in files if isinstance(each, LabelledSettings)), None)
    if columns and data is None:
        raise UserError("columns are those of data", "give data (--data FILE), or leave columns out")
    if columns and settings is None:
        kind = cast(Any, source.recipe).task.kind
        raise UserError(
            f"columns are for pairs and for labelled texts; test data of the task {kind} have none to choose",
            "leave columns out (--columns)",
        )
    if settings is None or data is None:
        return source, data
    if columns and len(columns) != 2:
        raise UserError(
            f"{counted(len(columns), 'column')} named for labelled texts",
            "name two columns: text and label (--columns TEXT,LABEL)",
        )
    kind = format_by_name(Path(data))
    has_own_columns = kind == "csv" or kind not in (None, settings.format)
    if not columns and not has_own_columns:
        return source, data
    table = settings.of_file(str(locate(data, Path(), once=True).resolve()))
    if has_own_columns and cast(Any, source.recipe).task.kind in ("classification", "regression"):
        columns = _columns(table, source, columns)
    text, label = columns or (settings.text_field or "text", settings.label_field or "label")
    parts = dataclasses.replace(parts, test=table.with_columns(text, label))
    return dataclasses.replace(source, recipe=dataclasses.replace(source.recipe, data=parts)), None


def reads_pairs(loaded: LoadedModel, columns: Sequence[str | int]) -> bool:
    """True if data of this model are a table of pairs.

    It translates, and `columns` name two, or no part of its recipe's data is one file, whose format counts.
    """
    if not isinstance(loaded.model, SequenceToSequence) or columns:
        return isinstance(loaded.model, SequenceToSequence)
    recipe = loaded.path / RECIPE
    parts: Any = read_toml(recipe)[0].get("data") if recipe.is_file() else None
    return not any("file" in part for part in (parts or {}).values() if isinstance(part, dict))


def _columns(settings: LabelledTable, source: RecipeFile, wanted: Sequence[str]) -> Sequence[str]:
    """The columns of text and label: those wanted, else by their names, else by what they hold."""
    table, recipe = open_table(Path(settings.file), settings.format), cast(Any, source.recipe)
    if not wanted and {"text", "label"} <= {*table.names}:
        return "text", "label"
    return roles_of(table, recipe.task.kind, wanted).columns


def with_context(source: RecipeFile, context: int | None) -> RecipeFile:
    """The recipe whose language model is scored with this context; None: with its own.

    Raises:
        UserError: the recipe is of another task. RecipeError: the context is longer than a window.
    """
    if context is None:
        return source
    validation: Any = getattr(source.recipe, "validation", None)
    if not hasattr(validation, "context"):
        raise UserError(
            f"context is for language models, and {source.recipe.name} is of another task", "leave it out"
        )
    changed = dataclasses.replace(validation, context=context)
    return dataclasses.replace(source, recipe=dataclasses.replace(source.recipe, validation=changed))
