"""Task: what training, scoring and the model folder need to know of a recipe and its data."""

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from regard import console
from regard.data.conllu import ConlluSettings
from regard.data.documents import DocumentSettings
from regard.data.examples import Examples, OrderedExamples
from regard.data.loader import Loader
from regard.data.process_share import ProcessShare
from regard.data.tables import format_by_name
from regard.distributed.group import SINGLE, Group
from regard.errors import RecipeError
from regard.evaluation.class_scores import ClassScore
from regard.evaluation.score import Score
from regard.models.build import config_class
from regard.models.config import ModelConfig
from regard.training.objective import Objective
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.weights.checkpoint import LEARNED_VALIDATION
from regard.weights.model_folder import LoadedModel

Say = Callable[[str], None]  # prints one line about the progress of a verb
TOKENIZERS_FOLDER = "tokenizers"  # in the run folder; a task uses the tokenisers that are there
TAKEN_FROM = "taken_from"  # key of their manifest: the pretrained model that they were copied from
BEGINS = "begins"  # another: True if that model begins texts with <s>


class Task(ABC):
    """A recipe whose data have been read. A task uses no random numbers.

    Attributes:
        config: the model's settings, with the sizes that follow from the data.
        files: files of the model folder besides weights, config and recipe: tokenisers, `generation.json`.
        labels: the names of the classes, in the order of the model's logits; empty if there are none.
        use: a shell command that uses the model, for the model card.
        has_validation: False if there are no validation data; `validate` is not called then.
        unit: what the model predicts, as the progress of a run counts it by the second.
        dry_run_share: the share of a full validation's work that a dry run does; NaN if unknown.
    """

    recipe: Any  # the task's own subclass of Recipe
    config: ModelConfig
    files: Mapping[str, bytes]
    labels: tuple[str, ...] = ()
    use: str
    has_validation: bool = True
    unit: str = "tok"
    dry_run_share: float = math.nan

    def start_from(self, generation: Mapping[str, Any], own: Mapping[str, Any]) -> None:  # noqa: B027
        """Take the decoding defaults of the pretrained model, its `generation`; `own`: the recipe's keys.

        A task whose recipe has all of them takes none.
        """

    @abstractmethod
    def objective(self) -> Objective:
        """The loss that training minimises."""

    @abstractmethod
    def examples(self) -> Examples:
        """The training examples."""

    def loader(self, group: Group = SINGLE) -> Loader:
        """This process's share of the training batches, which do not depend on the number of processes."""
        examples, batches, seed = self.examples(), self.recipe.batches, self.recipe.training.seed
        order = examples.order(batches.window, seed) if isinstance(examples, OrderedExamples) else None
        if group.size > 1:
            examples = ProcessShare(examples, group.rank, group.size)
        return Loader(examples, batches, seed=seed, order=order)

    def warning_of_start(self, start: LoadedModel) -> str | None:
        """A warning if the model that training starts from does not fit these data; None if it does."""
        return None

    def target_entropy(self, loader: Loader) -> float | None:
        """The training loss, in nats, of a model that knows the frequency of each target and nothing else.

        None if a training loss that stays at this value does not mean that the model learns nothing.
        """
        return None

    @abstractmethod
    def validate(self, model: Any) -> dict[str, float]:
        """`loss` in nats per prediction, and the recipe's other metrics, on the validation data.

        The caller puts the model into evaluation mode and turns gradients off.
        """

    @abstractmethod
    def test(self, model: Any) -> list[Score]:
        """Scores on the test data; empty if the recipe names no test data."""

    def verdict(self, metrics: Mapping[str, float]) -> str:
        """How the scores of a finished run compare with the expected ones; empty if none were expected."""
        return ""


@runtime_checkable
class Prepare(Protocol):
    """Makes a task from a recipe: reads the data, trains the tokenisers, caches costly results in `folder`.

    A second call with the same folder uses the cached results. With `limit` it prepares a dry run: it reads
    all data, so that it finds all errors in them, but keeps only `limit` training examples and
    DRY_RUN_EXAMPLES of each other part.

    Raises:
        DataError: a corpus cannot be read, or no example is left of it.
        FolderError: a corpus has changed since `folder` was made.
    """

    def __call__(self, source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> Task: ...


@dataclass(frozen=True, kw_only=True)
class ScoreReport:
    """Scores of a model on test data; `confusion[i, j]` counts examples of class i predicted as class j.

    `classes` are the scores of each class (if there are none, those of `confusion` are used), and
    `entity_types` those of each type of entities.
    """

    scores: list[Score]
    confusion: np.ndarray | None = None
    classes: Sequence[ClassScore] = ()
    entity_types: Sequence[ClassScore] = ()


@dataclass(frozen=True, kw_only=True)
class HeldOutData:
    """Test data for a trained model: their size in words ("15 texts"), and a function that scores a model."""

    size: str
    evaluate: Callable[[Any], ScoreReport]


@runtime_checkable
class OpenTestData(Protocol):
    """Opens the test data of a trained model's recipe, or `data` in the same format.

    `data` is a file, or NAME:FILE of the catalogue.

    Raises:
        DataError: the data cannot be read, or hold classes or features that the model does not know.
        RecipeError: the recipe names no test data, and `data` is None.
    """

    def __call__(self, source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData: ...


def settings_of_test_data(recipe: Any, loaded: LoadedModel, data: str | None, base: Path) -> tuple[Any, Path]:
    """The settings of the test data in a recipe's `[data]`, and the folder that their paths are relative to.

    `data` replaces their `file`; if `[data]` has no `test`, the settings of the training data are used. If
    there is no `data` either, the validation data are used and a note says so.

    Raises:
        RecipeError: there are no test data, and no validation data that the model was not trained on.
    """
    data_settings = recipe.data
    if data is not None:
        train = data_settings.train
        if isinstance(train, tuple):  # several corpora, perhaps of several formats
            train = data_settings.valid or train[0]
        settings = data_settings.test or train or data_settings.valid
        is_csv = format_by_name(Path(data)) == "csv"
        if is_csv and isinstance(settings, DocumentSettings | ConlluSettings):
            kind = "text" if isinstance(settings, DocumentSettings) else "CoNLL-U"
            raise RecipeError(
                f"{data} is a CSV file, but the model's recipe reads {kind}",
                "write what is to be read into a file of its own",
            )
        if is_csv and getattr(settings, "format", "csv") != "csv":
            raise RecipeError(
                f"{data} is a CSV file, but the model's recipe reads data in the format {settings.format!r}",
                "`regard new` reads CSV files; those that it writes, beside the recipe, can be read here",
            )
        return dataclasses.replace(settings, file=data), Path.cwd()
    if data_settings.test is None and data_settings.valid is None:
        raise RecipeError("the model's recipe names no test data", "name a file with --data FILE")
    learned = loaded.folder is not None and LEARNED_VALIDATION in loaded.folder.manifest
    if data_settings.test is None and (learned or getattr(data_settings, "train_on_valid", False)):
        raise RecipeError(
            "the model's recipe names no test data, and the model was trained on its validation data",
            "name a file with --data FILE",
        )
    if data_settings.test is None:
        console.note("the model's recipe names no test data; using its validation data")
    return data_settings.test or data_settings.valid, base


def model_config(recipe: Recipe, **sizes: Any) -> ModelConfig:
    """The config that the recipe's `[model]` describes, with the sizes that follow from the data."""
    return config_class(recipe.chosen_model_kind).from_table(recipe.model, **sizes)
