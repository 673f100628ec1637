"""Where a new recipe and its data go: never over what is there, and whole or not at all."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.catalogue import is_spec
from regard.errors import DataError, RecipeError

ENDINGS = ("gz", "csv", "tsv", "tab", "txt", "jsonl", "ndjson", "json", "conllu", "conll")


@dataclass(frozen=True, kw_only=True)
class RecipeLocation:
    """The recipe, and the folder beside it for the lines that it trains on."""

    recipe: Path

    @property
    def name(self) -> str:
        return self.recipe.stem

    @property
    def data(self) -> Path:
        return self.recipe.with_name(f"{self.name}.data")

    def file(self, name: str) -> str:
        """How the recipe names a file of its data folder."""
        return f"{self.data.name}/{name}"

    def path_of(self, file: str) -> str:
        """How the recipe names a file that was given: from where the recipe lies if they share a folder."""
        path = Path(file).expanduser()
        if not path.exists() and is_spec(file):
            return file
        path, base = path.resolve(), self.recipe.parent.resolve()
        try:
            shared = os.path.commonpath([path, base])
        except ValueError:  # two drives
            return str(path)
        return str(path) if shared == path.anchor else Path(os.path.relpath(path, base)).as_posix()

    def write(self, fill: Callable[[Path], str]) -> None:
        """Write what `fill` puts into a folder, and the recipe whose text it gives.

        Raises:
            DataError: nothing can be written there.
        """
        partial = self.data.with_name(f".{self.data.name}.partial")
        try:
            partial.mkdir(parents=True, exist_ok=True)
            text = fill(partial)
            os.replace(partial, self.data)
            self.recipe.write_text(text, "utf-8")
        except OSError as error:
            place = error.filename or self.recipe
            raise DataError(
                f"{place}: {error.strerror}", "name a place that can be written with --out"
            ) from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def location_for(out: str | Path | None, files: Sequence[str]) -> RecipeLocation:
    """Where to write: `out` is a recipe, or a folder (it is there or ends with a slash); else this folder.

    Raises:
        RecipeError: something is there already, or the name cannot stand in a recipe.
    """
    folder = out is not None and (str(out).endswith(("/", os.sep)) or Path(out).expanduser().is_dir())
    if out is None or folder:
        recipe = Path(out or "").expanduser() / f"{name_of(files)}.toml"
    else:
        recipe = Path(out).expanduser()
        recipe = recipe if recipe.suffix == ".toml" else recipe.with_name(f"{recipe.name}.toml")
    place = RecipeLocation(recipe=recipe)
    if not place.name.isprintable():
        raise RecipeError(f"{place.name!r} is no name for a recipe", "name another with --out RECIPE")
    for path in (place.recipe, place.data):
        if path.exists() or path.is_symlink():
            raise RecipeError(f"{path} is there already", "name another with --out RECIPE, or remove it")
    return place


def name_of(files: Sequence[str]) -> str:
    """train.en.gz and train.de.gz are train-en-de, a.txt and b.txt are a-b, labels.csv is labels."""
    names = [Path(file).name.rpartition(":")[2].removesuffix(".gz").split(".") for file in files]
    if len(names) == 1:
        parts = names[0][:-1] if names[0][-1].lower() in ENDINGS else names[0]
    elif names[0][0] == names[1][0]:
        parts = [*names[0], *names[1][1:]]
    else:
        parts = [names[0][0], names[1][0]]
    return re.sub(r"[^\w-]+", "-", "-".join(parts)).strip("-") or "recipe"
