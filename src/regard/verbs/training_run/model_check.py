"""Checks the settings of a model before its data are read, which takes minutes for a large corpus."""

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch

from regard.errors import ConfigError
from regard.models.build import MODELS, build_model, config_class, outline
from regard.models.config import ModelConfig
from regard.models.encoder_only import EncoderOnlyConfig
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
HEADS: dict[str, dict[str, Any]] = {  # of the encoder of a task
    "classification": {"head": "classification", "num_labels": 2},
    "tagging": {"head": "tokens", "num_labels": 2},
    "regression": {"head": "regression"},
    "masked_language_model": {"head": "masked_language_model"},
}
PATCHES = 2  # in a row of an image

SMALL = {"layers": 1, "vocab_size": 2**10}  # settings by their last words


def refuse_impossible_model(recipe: Recipe) -> None:
    """Build the model of `[model]` without memory, with sizes as data could have, and freeze its weights.

    Registered parts are tried in a small model. Of registered models nothing else is checked, as their code
    may need the sizes of the data; of those that start from a pretrained one nothing is.

    Raises:
        ConfigError: a setting of `[model]` is unknown or does not fit the others, or a registered part cannot
            be used.
        RecipeError: `training.freeze` matches nothing, or everything; or `training.recompute_activations` is
            set for a model without blocks.
    """
    kind = config_class(recipe.chosen_model_kind)
    sizes = None if "init" in recipe.model else _sizes(recipe, kind)
    if sizes is None:
        return
    if kind.kind not in MODELS.own:
        _try_parts_of_registered(recipe, sizes)
        return
    config = model_config(recipe, **sizes)
    has_registered = bool(registered_parts(config))
    try:
        with torch.random.fork_rng(devices=[]):  # a registered part may sample its weights
            model = outline(config)
    except RuntimeError:  # too large, or a registered part needs weights with values
        model = None
    except ConfigError as error:
        if error.__cause__ is None:
            raise
        model = None  # a registered part fails, perhaps for want of values
    if model is not None and recipe.training.recompute_activations:
        refuse_without_blocks(model)
    if model is not None and recipe.training.adapter is None:
        choose_trainable(model, freeze=recipe.training.freeze)
    if has_registered:
        _try_parts(config)


def _sizes(recipe: Recipe, kind: type[ModelConfig]) -> dict[str, Any] | None:
    """Sizes in place of those that follow from the data; None if they are not known."""
    preset = recipe.model.get("preset")
    fields = [field for field in dataclasses.fields(kind) if field.init]
    required = {field.name for field in fields if field.default is field.default_factory}  # both are missing
    own = {**kind.presets.get(str(preset), {}), **recipe.model}
    needed = set[str]() if preset is not None and preset not in kind.presets else required - own.keys()
    known = dict(SIZES_OF_DATA)
    if issubclass(kind, EncoderOnlyConfig):
        of_head = HEADS.get(getattr(getattr(recipe, "task", None), "kind", ""), {})
        known, needed = known | of_head, needed | of_head.keys()
    if not needed <= known.keys():
        return None
    found = {name: known[name] for name in needed}
    if issubclass(kind, VisionConfig) and "image_size" not in recipe.model:
        patch = own.get("patch_size", kind.patch_size)
        found["image_size"] = PATCHES * patch if isinstance(patch, int) and patch > 0 else kind.image_size
    return found


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


def _try_parts_of_registered(recipe: Recipe, sizes: Mapping[str, Any]) -> None:
    """The same for a registered model; what it says of itself is not judged, only what names a part."""
    names: list[str] = []
    try:
        config = model_config(recipe, **sizes)
        names += map(repr, registered_parts(config).values())
        if names:
            _try_parts(config)
    except ConfigError as error:
        if any(name in error.message for name in names):
            raise
    except Exception:  # noqa: BLE001, it may need the sizes of the data
        return
