"""The recipes that come with regard: list, show, find by name."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from regard.errors import RecipeError, did_you_mean
from regard.verbs.shared.arguments import checked


@dataclass(frozen=True, kw_only=True)
class RecipeInfo:
    """The name, description and path of a recipe that comes with regard."""

    name: str
    description: str
    path: Path


def recipes() -> list[RecipeInfo]:
    """All recipes that come with regard, sorted by name."""
    paths = sorted(path for path in recipe_folder().iterdir() if path.suffix == ".toml")
    return [
        RecipeInfo(
            name=path.stem,
            description=tomllib.loads(path.read_text("utf-8")).get("description", ""),
            path=path,
        )
        for path in paths
    ]


@checked
def recipes_show(name: str) -> str:
    """The text of a recipe that comes with regard.

    Args:
        name: the recipe's name in `recipes`.

    Raises:
        RecipeError: no recipe has this name; the hint is the most similar name.
    """
    known = {recipe.name: recipe.path for recipe in recipes()}
    if name not in known:
        raise RecipeError(f"no recipe is called {name!r}", did_you_mean(name, known))
    return known[name].read_text("utf-8")


def recipe_path(recipe: str | Path) -> Path:
    """The path `recipe`, or if there is none, the path of regard's recipe of that name."""
    path = Path(recipe)
    if path.exists() or path.name != str(recipe):  # a name has no folder
        return path
    shipped = recipe_folder() / f"{recipe}.toml"
    return shipped if shipped.is_file() else path


def recipe_folder() -> Path:
    """The folder of recipes, in the installed package or in the checkout.

    Raises:
        RecipeError: there is neither.
    """
    package = Path(str(resources.files("regard")))
    for folder in (package / "recipes", package.parent.parent / "recipes"):
        if folder.is_dir():
            return folder
    raise RecipeError(
        "the recipes are missing from this installation", "pip install --force-reinstall regard"
    )
