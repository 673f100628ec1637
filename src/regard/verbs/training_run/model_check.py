"""Checks the settings of a model before its data are read, which takes minutes for a large corpus."""

import dataclasses
from collections.abc import Sequence

from regard.models.build import config_class, outline
from regard.models.vision import VisionConfig
from regard.training.trainable import choose_trainable
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.tasks.task import model_config

SIZES_OF_DATA = {  # stand for the sizes that the data will have
    **dict.fromkeys(("vocab_size", "src_vocab_size", "tgt_vocab_size"), 2**16),
    "num_features": 80,
    "num_labels": 2,
}


def refuse_impossible_model(recipe: Recipe, freeze: Sequence[str] = ()) -> None:
    """Build the model of `[model]` without memory, with sizes as data could have; freeze `freeze` in it.

    A model of images, one with other sizes that follow from the data, and one that is too large to be built
    so are not checked; nor is one whose `init` is a folder that was not read yet.

    Raises:
        ConfigError: a setting of `[model]` is unknown or does not fit the others.
        RecipeError: `freeze` matches nothing, or everything.
    """
    kind, start = config_class(recipe.chosen_model_kind), recipe.model.get("init", {})
    fields = [field for field in dataclasses.fields(kind) if field.init]
    required = {field.name for field in fields if field.default is field.default_factory}  # both are missing
    preset = kind.presets.get(str(recipe.model.get("preset")), {})
    needed = required - recipe.model.keys() - preset.keys() - {*start}
    if kind is VisionConfig or isinstance(start, str) or not needed <= SIZES_OF_DATA.keys():
        return
    config = model_config(recipe, **{name: SIZES_OF_DATA[name] for name in needed})
    try:
        model = outline(config)
    except RuntimeError:  # too large, or a registered part needs weights with values
        return
    choose_trainable(model, freeze=freeze)
