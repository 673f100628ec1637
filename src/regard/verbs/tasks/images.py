"""Image classification by a vision Transformer."""

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
import torch.nn.functional as F

from regard.data.augmentation import AugmentationSettings
from regard.data.examples import Examples
from regard.data.images import (
    ImageExamples,
    Images,
    ImageSettings,
    PixelNumber,
    read_labelled_images,
    refuse_other_sizes,
    refuse_unseen_labels,
)
from regard.data.labelled import split
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import accuracy, confusion
from regard.evaluation.score import Score
from regard.models.model import Model
from regard.models.vision import VisionTransformer
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.shared.model_loading import model_that
from regard.verbs.tasks.classification import class_test_scores
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import (
    HeldOutData,
    Say,
    ScoreReport,
    Task,
    model_config,
    settings_of_test_data,
)
from regard.verbs.tasks.validation_split import PART_NAMES, ValidationSplit, examples_kept, settings_by_part
from regard.verbs.training_run.data_checks import refuse_other_data
from regard.weights.model_folder import LoadedModel

IMAGES_PER_BATCH = 500  # without gradients: validation, test, `regard classify`


@dataclass(frozen=True, kw_only=True)
class ImagesSettings:
    """The section `[task]` of a recipe."""

    kind: Literal["images"]  # the task


@dataclass(frozen=True, kw_only=True)
class ImagesDataSettings(ValidationSplit):
    """`[data]`: files of images and labels. Without `valid`, a share of each training class is held out."""

    train: ImageSettings
    valid: ImageSettings | None = None
    test: ImageSettings | None = None
    class_names: tuple[str, ...] = ()  # empty: the names are the numbers of the classes

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.class_names)) < len(self.class_names):
            raise RecipeError("data.class_names has a name twice", "give each class another name")


@dataclass(frozen=True, kw_only=True)
class ImagesRecipe(Recipe):
    """Recipe of an image classifier: data, augmentation, model, training."""

    model_kind: ClassVar[str] = "vision"
    task: ImagesSettings
    data: ImagesDataSettings
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)

    @property
    def metric_names(self) -> tuple[str, ...]:
        return ("accuracy",)


class ImageClassification(Task):
    """Training, validation and test images, normalised by the training pixels' mean and deviation."""

    use = "regard classify --model . --input IMAGES"

    def __init__(
        self,
        recipe: ImagesRecipe,
        labels: tuple[str, ...],
        train: Images,
        valid: Images,
        test: Images | None,
    ) -> None:
        self.recipe: ImagesRecipe = recipe
        self.labels = labels
        self._train, self._valid, self._test = train, valid, test
        self._mean, self._deviation = train.mean_and_deviation()
        self.config = model_config(
            recipe,
            num_labels=len(labels),
            image_size=train.size,
            channels=train.channels,
            pixel_mean=self._mean,
            pixel_std=self._deviation,
        )
        self.files = {}

    def objective(self) -> Objective:
        return LabelCrossEntropy(smoothing=self.recipe.training.label_smoothing)

    def examples(self) -> Examples:
        return ImageExamples(
            self._train,
            mean=self._mean,
            deviation=self._deviation,
            augmentation=self.recipe.augmentation,
            seed=self.recipe.training.seed,
        )

    def validate(self, model: Any) -> dict[str, float]:
        loss, table = _loss_and_confusion(model, self._valid, self._mean, self._deviation)
        return {"loss": loss, "accuracy": 100 * accuracy(table)}

    def test(self, model: Any) -> list[Score]:
        if self._test is None:
            return []
        return _evaluate(model, self._test, self._mean, self._deviation).scores


def _loss_and_confusion(
    model: Model, images: Images, mean: PixelNumber, deviation: PixelNumber
) -> tuple[float, np.ndarray]:
    """The mean loss of an image, and the confusion matrix (rows: true classes, columns: predictions)."""
    examples = ImageExamples(images, mean=mean, deviation=deviation)
    nll, predictions = 0.0, []
    with torch.no_grad():
        for numbers in np.array_split(np.arange(len(images)), -(-len(images) // IMAGES_PER_BATCH)):
            batch = examples.batch(numbers, 0).to(model.device)
            logits = model(*batch.inputs).float()
            nll += float(F.cross_entropy(logits, batch.labels, reduction="sum"))
            predictions.append(logits.argmax(-1).cpu().numpy())
    table = confusion(images.labels, np.concatenate(predictions), model.config.num_labels)
    return nll / len(images), table


def _evaluate(model: Model, images: Images, mean: PixelNumber, deviation: PixelNumber) -> ScoreReport:
    _, table = _loss_and_confusion(model, images, mean, deviation)
    return ScoreReport(scores=class_test_scores(table, f"images:{len(images)}"), confusion=table)


def open_test_data(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test images; they must have the model's image size and classes."""
    config = model_that("classifies images", VisionTransformer, loaded).config
    data_settings = cast(ImagesRecipe, source.recipe).data
    if data is None:
        settings, base = settings_of_test_data(data_settings, None, source.base)
    else:
        settings, base = _settings_for_file(data_settings.test or data_settings.train, data), Path.cwd()
    images = read_labelled_images(settings, base)
    refuse_other_sizes(images.pixels, images.name, size=config.image_size, channels=config.channels)
    if (largest := int(images.labels.max())) >= config.num_labels:
        raise DataError(
            f"{images.name}: a label is {largest}, but the model has {config.num_labels} classes",
            "number the classes from 0, as in the training data",
        )
    return HeldOutData(
        size=f"{len(images):,} images",
        evaluate=partial(_evaluate, images=images, mean=config.pixel_mean, deviation=config.pixel_std),
    )


def _settings_for_file(settings: ImageSettings, data: str) -> ImageSettings:
    """`settings` for other files: an NPZ file with images and labels, or an IDX file of images.

    The labels of `train-images-idx3-ubyte` are in `train-labels-idx1-ubyte`.
    """
    folder, name = data[: data.rfind("/") + 1], data[data.rfind("/") + 1 :]
    labels = name if name.endswith(".npz") else name.replace("images", "labels").replace("idx3", "idx1")
    if labels == name and not name.endswith(".npz"):
        raise DataError(
            f"{data}: cannot derive the name of its label file",
            "give an NPZ file, or an IDX file with `images` in its name",
        )
    return replace(settings, images=data, labels=folder + labels)


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> ImageClassification:
    """Read all images into memory, one byte a pixel."""
    recipe = cast(ImagesRecipe, source.recipe)
    data = recipe.data
    parts = {
        part: read_labelled_images(settings, source.base) for part, settings in settings_by_part(data).items()
    }
    refuse_other_data({part: (each.name, each.fingerprint()) for part, each in parts.items()}, folder)
    train = parts["train"]
    labels = _class_names(train, data.class_names)
    for part in parts.values():
        refuse_other_sizes(part.pixels, part.name, size=train.size, channels=train.channels)
        refuse_unseen_labels(part, train)
    if "valid" not in parts:
        kept, held_out = split(train.labels.tolist(), data.valid_share, recipe.training.seed)
        train, parts["valid"] = train.select(np.array(kept)), train.select(np.array(held_out, np.int64))
        parts["train"] = train
    say(f"training: {len(train):,} images of {train.size} x {train.size} pixels, {len(labels)} classes")
    for part in ("valid", "test"):
        if part in parts:
            say(f"{PART_NAMES[part]}: {len(parts[part]):,} images")
    if not len(parts["valid"]):
        raise DataError("no image is left to validate on", "raise data.valid_share, or give data.valid")
    if limit is not None:
        parts = {
            part: images.select(np.arange(len(images))[: examples_kept(part, limit)])
            for part, images in parts.items()
        }
    return ImageClassification(recipe, labels, parts["train"], parts["valid"], parts.get("test"))


def _class_names(train: Images, names: tuple[str, ...]) -> tuple[str, ...]:
    """The name of each class of the training images.

    Raises:
        DataError: a label is not the number of a class, or there is only one class.
    """
    largest = int(train.labels.max())
    if names and largest >= len(names):
        raise DataError(
            f"{train.name}: a label is {largest}, but data.class_names has {len(names)}",
            f"name {largest + 1} classes, from 0",
        )
    if largest >= max(len(train), len(names)):
        raise DataError(
            f"{train.name}: a label is {largest} among {len(train):,} images", "number the classes from 0"
        )
    if int(train.labels.min()) == largest:
        raise DataError(
            f"{train.name}: all images have label {largest}", "a classifier needs two classes or more"
        )
    return names or tuple(map(str, range(largest + 1)))
