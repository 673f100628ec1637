"""Checks the settings of a model before its data are read, which takes minutes for a large corpus."""

import dataclasses
from contextlib import suppress

import torch

from regard.errors import ConfigError
from regard.models.build import MODELS, build_model, config_class, outline
from regard.models.config import ModelConfig
from regard.models.registered import registered_parts
from regard.models.vision import VisionConfig
from regard.training.recomputation import refuse_without_blocks
from regard.training.trainable import choose_trainable
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.tasks.task import model_config

SIZES_OF_DATA = {  # stand for the sizes that the data will have
    **dict.fromkeys(("vocab_size", "src_vocab_size", "tgt_vocab_size"), 2**16),
    "num_features": 80,
    "num_labels": 2,
}

SMALL = {"layers": 1, "vocab_size": 2**10}  # settings by their last words


def refuse_impossible_model(recipe: Recipe) -> None:
    """Build the model of `[model]` without memory, with sizes as data could have, and freeze its weights.

    Registered parts are tried in a small model.

    Not checked are models of images and encoders with a head, whose other sizes follow from the data,
    registered models, and those that start from a pretrained one.

    Raises:
        ConfigError: a setting of `[model]` is unknown or does not fit the others, or a registered part cannot
            be used.
        RecipeError: `training.freeze` matches nothing, or everything; or `training.recompute_activations` is
            set for a model without blocks.
    """
    kind, preset = config_class(recipe.chosen_model_kind), recipe.model.get("preset")
    fields = [field for field in dataclasses.fields(kind) if field.init]
    required = {field.name for field in fields if field.default is field.default_factory}  # both are missing
    is_unknown = preset is not None and preset not in kind.presets
    needed = (
        set() if is_unknown else required - recipe.model.keys() - kind.presets.get(str(preset), {}).keys()
    )
    is_left_out = "init" in recipe.model or kind.kind not in MODELS.own or kind is VisionConfig
    if is_left_out or not needed <= SIZES_OF_DATA.keys():
        return
    config = model_config(recipe, **{name: SIZES_OF_DATA[name] for name in needed})
    try:
        with torch.random.fork_rng(devices=[]):  # a registered part may sample its weights
            model = outline(config)
    except RuntimeError:  # too large, or a registered part needs weights with values
        return
    except ConfigError as error:
        if error.__cause__ is not None:  # a registered part fails, perhaps for want of values
            return
        raise
    if recipe.training.recompute_activations:
        refuse_without_blocks(model)
    if recipe.training.adapter is None:
        choose_trainable(model, freeze=recipe.training.freeze)
    if registered_parts(config):
        _try_parts(config)


def _try_parts(config: ModelConfig) -> None:
    """Build a model of these parts that has one layer in each stack, and a small vocabulary."""
    names = [field.name for field in dataclasses.fields(config) if getattr(config, field.name)]
    small = {name: size for name in names for end, size in SMALL.items() if name.endswith(end)}
    try:
        config = dataclasses.replace(config, **small)
    except ConfigError:  # there is none; the parts are tried when the model itself is built
        return
    with suppress(RuntimeError):  # as above
        build_model(config, seed=0)
