"""The whole recipe: which sections there are, what each is, and where its paths begin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.data.corpus import CorpusSettings, LinePolicy
from regard.data.loader import LoaderSettings
from regard.data.tokenizer import TokenizerSettings
from regard.decoding.settings import GenerationSettings
from regard.errors import RecipeError
from regard.recipe import apply_overrides, read, read_toml
from regard.training.settings import TrainingSettings
from regard.verbs.validation import ValidationSettings


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """Where the text is, and what to do with lines that cannot be used."""

    train: CorpusSettings
    valid: CorpusSettings
    test: CorpusSettings | None = None
    lines: LinePolicy = field(default_factory=LinePolicy)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One TOML file: data, tokeniser, model, training, validation, decoding."""

    name: str
    description: str = ""
    card: str = ""  # goes into the model card: licence and attribution of the data, limits
    data: DataSettings
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    model: dict[str, Any] = field(default_factory=dict)  # a preset and what differs from it: models.config
    batches: LoaderSettings = field(default_factory=LoaderSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    validation: ValidationSettings = field(default_factory=ValidationSettings)
    decoding: GenerationSettings = field(default_factory=GenerationSettings)

    def __post_init__(self) -> None:
        metric = self.training.best_metric
        if metric != "loss" and metric not in self.validation.metrics:
            raise RecipeError(
                f"training.best_metric is {metric!r}, which validation.metrics does not list",
                f"validation.metrics = {[*self.validation.metrics, metric]}",
            )


@dataclass(frozen=True, kw_only=True)
class RecipeFile:
    """A recipe with its source: the table that was read, the text verbatim, and where its paths begin."""

    recipe: Recipe
    table: dict[str, Any]
    text: str
    base: Path


def load_recipe(path: Path, overrides: Sequence[str] = ()) -> RecipeFile:
    """Read a recipe strictly, each `section.key=value` of `overrides` set.

    Raises:
        RecipeError: with the file's name, the setting's and what would do.
    """
    table, text = read_toml(path)
    if not table and not overrides:
        raise RecipeError(
            f"{path}: the recipe is empty", "start from one that runs: `regard recipes show reverse`"
        )
    return recipe_from(apply_overrides(table, overrides), text, path.absolute().parent, str(path))


def recipe_from(table: Mapping[str, Any], text: str, base: Path, where: str) -> RecipeFile:
    try:
        recipe = read(Recipe, table)
    except RecipeError as error:
        raise RecipeError(f"{where}: {error.message}", error.hint) from None
    return RecipeFile(recipe=recipe, table=dict(table), text=text, base=base)
