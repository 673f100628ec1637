"""The recipes that come with regard: listed, shown, found by their names."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from regard.errors import RecipeError, did_you_mean
from regard.verbs.arguments import checked


@dataclass(frozen=True, kw_only=True)
class RecipeInfo:
    """What `regard recipes` says of one recipe."""

    name: str
    description: str
    path: Path


def recipes() -> list[RecipeInfo]:
    """Every recipe that comes with regard, by name."""
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
    """The text of the recipe called `name`.

    Args:
        name: of the recipe, as `recipes` lists it.

    Raises:
        RecipeError: there is none, with the nearest name.
    """
    known = {recipe.name: recipe.path for recipe in recipes()}
    if name not in known:
        raise RecipeError(f"no recipe is called {name!r}", did_you_mean(name, known))
    return known[name].read_text("utf-8")


def recipe_path(recipe: str | Path) -> Path:
    """`recipe` itself, or the file of the recipe of that name if there is no such path here."""
    path = Path(recipe)
    shipped = recipe_folder() / f"{recipe}.toml"
    return shipped if not path.exists() and path.name == str(recipe) and shipped.is_file() else path


def recipe_folder() -> Path:
    """The folder of recipes: inside the installed package, or that of the checkout."""
    package = Path(str(resources.files("regard")))
    inside, beside = package / "recipes", package.parent.parent / "recipes"
    if not inside.is_dir() and not beside.is_dir():
        raise RecipeError(
            "the recipes are missing from this installation", "pip install --force-reinstall regard"
        )
    return inside if inside.is_dir() else beside
