"""Task: a recipe whose data are ready; all that training, scoring and the model folder need of it."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard import console
from regard.data.examples import Examples
from regard.data.loader import Loader
from regard.data.process_share import ProcessShare
from regard.distributed.group import SINGLE, Group
from regard.errors import RecipeError
from regard.evaluation.score import Score
from regard.models.build import config_class
from regard.models.config import ModelConfig
from regard.training.objective import Objective
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.weights.model_folder import LoadedModel

Say = Callable[[str], None]
TRIAL = 32  # validation and test examples of a dry run
TOKENIZERS = "tokenizers"  # where in its folder a task keeps its tokenisers; those that are there are used
TAKEN_FROM = "taken_from"  # in their manifest: the trained model that they are of, where this run made none


class Task(ABC):
    """What a kind of task knows once its data are read. Nothing here draws random numbers.

    Attributes:
        config: the model's settings, the sizes that the data say filled in.
        files: what the model folder holds beside weights, config and recipe: tokenisers, `generation.json`.
        labels: the names of the classes, in the order of the model's logits; empty where there are none.
        use: a line for the shell that uses the model, for its card.
        trial_share: of a trial: the share of the work of a validation that is left in it; NaN if not known.
    """

    recipe: Any  # its own class of Recipe
    config: ModelConfig
    files: Mapping[str, bytes]
    labels: tuple[str, ...] = ()
    use: str
    trial_share: float = math.nan

    @abstractmethod
    def objective(self) -> Objective:
        """What training makes smaller."""

    @abstractmethod
    def examples(self) -> Examples:
        """What it is made smaller on."""

    def loader(self, group: Group = SINGLE) -> Loader:
        """This process's share of the training batches, which are the same for any number of processes."""
        examples = self.examples()
        if group.size > 1:
            examples = ProcessShare(examples, group.rank, group.size)
        return Loader(examples, self.recipe.batches, seed=self.recipe.training.seed)

    def target_entropy(self, loader: Loader) -> float | None:
        """The training loss, in nats, of a model that knows how frequent each target is and nothing else.

        None where a training loss that stays there need not mean that nothing is learned.
        """
        return None

    @abstractmethod
    def validate(self, model: Any) -> dict[str, float]:
        """`loss` in nats per prediction, and what else the recipe measures, on the validation data.

        The model is in evaluation mode and gradients are off.
        """

    @abstractmethod
    def test(self, model: Any) -> list[Score]:
        """Scores on the test data; none where the recipe names no such data."""

    def verdict(self, metrics: Mapping[str, float]) -> str:
        """How the scores of a finished run compare with what was expected; empty where nothing was."""
        return ""


@runtime_checkable
class Prepare(Protocol):
    """From a recipe to its task: read the data, train the tokenisers, write down in `folder` what is costly.

    Called once more for the same folder, it finds what it wrote. With `limit` it is a trial: everything is
    read, so that whatever is wrong with it is found, but only so many training examples are kept, and
    TRIAL others.

    Raises:
        DataError: a corpus cannot be read, or nothing is left of it.
        FolderError: a corpus is not what it was when `folder` was made.
    """

    def __call__(self, source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Task: ...


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a model reaches on test data; `confusion[i, j]`: how often class i is taken for class j."""

    scores: list[Score]
    confusion: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class HeldOutData:
    """Test data for a trained model: how many there are of what, and what a model reaches on them."""

    counted: str
    measure: Callable[[Any], Measured]


@runtime_checkable
class TestData(Protocol):
    """The test data of the recipe that a trained model was made by; or `data`, which is read as those are.

    `data` is a file, or NAME:FILE of the catalogue.

    Raises:
        DataError: they cannot be read, or hold what the model does not know.
        RecipeError: the recipe names no data to test on, and there is no `data`.
    """

    def __call__(self, source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData: ...


def held_settings(given: Any, data: str | None, base: Path) -> tuple[Any, Path]:
    """The settings of the test data among those `given` in a recipe, and the folder their paths begin at.

    `data` takes the place of their `file`; where there are none, it is read as the training data are. Where
    there is neither, the validation data have to do, which is said.
    """
    if data is not None:
        return dataclasses.replace(given.test or given.train, file=data), Path.cwd()
    if given.test is None and given.valid is None:
        raise RecipeError("the model's recipe names no test data", "name a file with --data FILE")
    if given.test is None:
        console.note("the model's recipe names no test data: these are its validation data")
    return given.test or given.valid, base


def model_config(recipe: Recipe, **sizes: Any) -> ModelConfig:
    """What the recipe's `[model]` asks for, of its `kind` or the task's own."""
    kind = recipe.model.get("kind", recipe.model_kind)
    return config_class(kind).from_table(recipe.model, **sizes)
