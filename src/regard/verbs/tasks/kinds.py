"""All kinds of task, by the name that `[task] kind` gives them."""

from typing import NamedTuple

from regard.verbs.tasks import images, translation
from regard.verbs.tasks.recipe import Recipe
from regard.verbs.tasks.task import Prepare


class Kind(NamedTuple):
    """What a recipe of this kind may say, and how its data become a task."""

    recipe: type[Recipe]
    prepare: Prepare


KINDS: dict[str, Kind] = {
    "images": Kind(images.ImagesRecipe, images.prepare),
    "translation": Kind(translation.TranslationRecipe, translation.prepare),
}


def prepare_of(recipe: Recipe) -> Prepare:
    """How the data of this recipe are prepared."""
    return next(kind.prepare for kind in KINDS.values() if type(recipe) is kind.recipe)
