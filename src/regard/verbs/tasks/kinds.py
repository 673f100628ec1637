"""All kinds of task, by the name that `[task] kind` gives them."""

from typing import NamedTuple

from regard.registry import Registry
from regard.verbs.tasks import (
    classification,
    images,
    language_model,
    masked_language_model,
    nodes,
    regression,
    tagging,
    transcription,
    translation,
)
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.tasks.task import Prepare, TestData


class Kind(NamedTuple):
    """What a recipe of this kind may say, how its data become a task, and its test data something alone."""

    recipe: type[Recipe]
    prepare: Prepare
    hold: TestData


_OWN = {
    "classification": Kind(classification.ClassificationRecipe, classification.prepare, classification.hold),
    "images": Kind(images.ImagesRecipe, images.prepare, images.hold),
    "language_model": Kind(language_model.LanguageModelRecipe, language_model.prepare, language_model.hold),
    "masked_language_model": Kind(
        masked_language_model.MaskedLanguageModelRecipe,
        masked_language_model.prepare,
        masked_language_model.hold,
    ),
    "nodes": Kind(nodes.NodesRecipe, nodes.prepare, nodes.hold),
    "regression": Kind(regression.RegressionRecipe, regression.prepare, regression.hold),
    "tagging": Kind(tagging.TaggingRecipe, tagging.prepare, tagging.hold),
    "transcription": Kind(transcription.TranscriptionRecipe, transcription.prepare, transcription.hold),
    "translation": Kind(translation.TranslationRecipe, translation.prepare, translation.hold),
}
KINDS: Registry[Kind] = Registry("task", _OWN, how="register_task of regard.verbs.tasks")


def register_task(name: str, *, recipe: type[Recipe], prepare: Prepare, hold: TestData) -> None:
    """Make a task known by a name, for `[task] kind` of a recipe.

    Args:
        recipe: the class of its recipes, with a section for its data.
        prepare: reads the data of a recipe and gives a `Task`.
        hold: gives the test data for a trained model.

    Raises:
        UserError: the name is empty, or one of regard's own.
    """
    KINDS.register(name)(Kind(recipe, prepare, hold))


def kind_of(recipe: Recipe) -> Kind:
    """What can be done with the data of this recipe."""
    return next(kind for kind in KINDS.values() if type(recipe) is kind.recipe)
