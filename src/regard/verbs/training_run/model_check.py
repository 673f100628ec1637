"""Checks the settings of a model before its data are read, which takes minutes for a large corpus."""

import dataclasses

from regard.models.build import config_class, outline
from regard.training.settings import TrainingSettings
from regard.training.trainable import choose_trainable
from regard.verbs.tasks.recipe import Recipe

STANDS_FOR = 1_000  # the size of a vocabulary, or the number of classes, which the data will tell
KNOWN_LATER = ("vocab_size", "num_labels", "num_features")  # ends of the names of such sizes


def refuse_impossible_model(recipe: Recipe, training: TrainingSettings) -> None:
    """Build the model of `[model]` without memory, and freeze what `training.freeze` names.

    Models with other sizes from the data, such as those of images, are checked when these are known.

    Raises:
        ConfigError: a setting of `[model]` is unknown or does not fit the others.
        RecipeError: `training.freeze` matches nothing, or everything.
    """
    kind = config_class(recipe.chosen_model_kind)
    given = {*recipe.model.get("init", {})}
    needed = [
        field.name for field in dataclasses.fields(kind) if _is_needed(field) and field.name not in given
    ]
    if not all(name.endswith(KNOWN_LATER) for name in needed):
        return
    model = outline(kind.from_table(recipe.model, **dict.fromkeys(needed, STANDS_FOR)))
    if training.adapter is None:
        choose_trainable(model, freeze=training.freeze)


def _is_needed(field: dataclasses.Field[object]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
