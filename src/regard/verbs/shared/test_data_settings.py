"""Settings of a call that change how a model is scored on the test data of its recipe."""

import dataclasses
from typing import Any

from regard.decoding.control import controls_of
from regard.decoding.control_fields import Beam
from regard.decoding.settings import GenerationSettings
from regard.errors import UserError
from regard.models.decoder_only import DecoderOnly
from regard.models.sequence_to_sequence import SequenceToSequence
from regard.verbs.generation.controls import Controls
from regard.verbs.generation.decoding_defaults import decoding_defaults
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
