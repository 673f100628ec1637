"""The paths of a new recipe and its data: never overwritten, and written completely or not at all."""

import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.data.catalogue import is_spec
from regard.errors import DataError, RecipeError
from regard.weights.checkpoint import is_run

ENDINGS = ("gz", "csv", "tsv", "tab", "txt", "jsonl", "ndjson", "json", "conllu", "conll")


@dataclass(frozen=True, kw_only=True)
class RecipeLocation:
    """The path of a new recipe, and of the folder next to it for its data."""

    recipe: Path

    @property
    def name(self) -> str:
        """The recipe's name: its file name without `.toml`."""
        return self.recipe.stem

    @property
    def data(self) -> Path:
        """The folder of the recipe's data."""
        return self.recipe.with_name(f"{self.name}.data")

    def file(self, name: str) -> str:
        """The path of a file of the data folder, relative to the recipe."""
        return f"{self.data.name}/{name}"

    def relative_path(self, file: str) -> str:
        """The path of a user's file in the recipe: relative to the recipe if both share a folder."""
        path = Path(file).expanduser()
        if not path.exists() and is_spec(file):
            return file
        return relative_to(self.recipe.parent, path)

    def write(self, fill: Callable[[Path], str]) -> None:
        """Write the data folder, which `fill` fills, and the recipe, whose text `fill` returns.

        Raises:
            DataError: a file cannot be written.
        """
        partial = self.data.with_name(f".{self.data.name}.partial")
        try:
            partial.mkdir(parents=True, exist_ok=True)
            text = fill(partial)
            os.replace(partial, self.data)
            self.recipe.write_text(text, "utf-8")
        except OSError as error:
            path = error.filename or self.recipe
            raise DataError(
                f"{path}: {error.strerror}", "name a folder that you can write to with --out"
            ) from None
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def relative_to(folder: Path, file: Path) -> str:
    """The path of `file`, relative to `folder` if both are below one folder other than the root."""
    path, base = file.resolve(), folder.resolve()
    try:
        shared = os.path.commonpath([path, base])
    except ValueError:  # two drives
        return str(path)
    return str(path) if shared == path.anchor else Path(os.path.relpath(path, base)).as_posix()


def location_for(out: str | Path | None, files: Sequence[str]) -> RecipeLocation:
    """The location for `out`: a recipe, or a folder (existing, or with a slash at the end); None: here.

    Raises:
        RecipeError: the recipe or its data exist already, the name is not printable, or a run has the folder.
    """
    folder = out is not None and (str(out).endswith(("/", os.sep)) or Path(out).expanduser().is_dir())
    if out is None or folder:
        recipe = Path(out or "").expanduser() / f"{name_of(files)}.toml"
    else:
        recipe = Path(out).expanduser()
        recipe = recipe if recipe.suffix == ".toml" else recipe.with_name(f"{recipe.name}.toml")
    location = RecipeLocation(recipe=recipe)
    if not location.name.isprintable():
        raise RecipeError(f"{location.name!r} cannot name a recipe", "name another with --out RECIPE")
    if is_run(location.recipe.parent):
        raise RecipeError(
            f"{location.recipe.parent} is the folder of a run, which keeps its own files there",
            "name another with --out RECIPE",
        )
    for path in (location.recipe, location.data):
        if path.exists() or path.is_symlink():
            raise RecipeError(f"{path} exists already", "name another with --out RECIPE, or remove it")
    return location


def name_of(files: Sequence[str]) -> str:
    """The name of a recipe for files: train-en-de for train.en.gz and train.de.gz, labels for labels.csv."""
    names = [Path(file).name.rpartition(":")[2].removesuffix(".gz").split(".") for file in files]
    if len(names) == 1:
        parts = names[0][:-1] if names[0][-1].lower() in ENDINGS else names[0]
    elif names[0][0] == names[1][0]:
        parts = [*names[0], *names[1][1:]]
    else:
        parts = [names[0][0], names[1][0]]
    return re.sub(r"[^\w-]+", "-", "-".join(parts)).strip("-") or "recipe"
