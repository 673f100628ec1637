"""All kinds of task, by the name that `[task] kind` gives them."""

from typing import NamedTuple

from regard.registry import Registry, refuse_other_arguments
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
from regard.verbs.tasks.task import OpenTestData, Prepare


class TaskKind(NamedTuple):
    """The recipe class of a kind of task, and the functions that open its training and test data."""

    recipe: type[Recipe]
    prepare: Prepare
    open_test_data: OpenTestData


_OWN = {
    "classification": TaskKind(
        classification.ClassificationRecipe, classification.prepare, classification.open_test_data
    ),
    "images": TaskKind(images.ImagesRecipe, images.prepare, images.open_test_data),
    "language_model": TaskKind(
        language_model.LanguageModelRecipe, language_model.prepare, language_model.open_test_data
    ),
    "masked_language_model": TaskKind(
        masked_language_model.MaskedLanguageModelRecipe,
        masked_language_model.prepare,
        masked_language_model.open_test_data,
    ),
    "nodes": TaskKind(nodes.NodesRecipe, nodes.prepare, nodes.open_test_data),
    "regression": TaskKind(regression.RegressionRecipe, regression.prepare, regression.open_test_data),
    "tagging": TaskKind(tagging.TaggingRecipe, tagging.prepare, tagging.open_test_data),
    "transcription": TaskKind(
        transcription.TranscriptionRecipe, transcription.prepare, transcription.open_test_data
    ),
    "translation": TaskKind(translation.TranslationRecipe, translation.prepare, translation.open_test_data),
}
KINDS: Registry[TaskKind] = Registry("task", _OWN, how="register_task of regard.verbs.tasks")


def register_task(name: str, *, recipe: type[Recipe], prepare: Prepare, open_test_data: OpenTestData) -> None:
    """Make a task known by a name, for `[task] kind` of a recipe.

    Args:
        recipe: the class of its recipes, with a section for its data.
        prepare: reads the data of a recipe and gives a `Task`.
        open_test_data: opens the test data for a trained model.

    Raises:
        UserError: the name is empty or one of regard's own, or a function cannot be called as these are.
    """
    what = f"the task {name!r}"
    refuse_other_arguments(prepare, f"{what}: prepare", ("source", "folder"), ("say", "limit"))
    refuse_other_arguments(open_test_data, f"{what}: open_test_data", ("source", "loaded", "data"))
    KINDS.register(name)(TaskKind(recipe, prepare, open_test_data))


def task_kind(recipe: Recipe) -> TaskKind:
    """The kind of task that a recipe is of."""
    return next(kind for kind in KINDS.values() if type(recipe) is kind.recipe)
