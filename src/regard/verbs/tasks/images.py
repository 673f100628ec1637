"""Classes of images, by any model that reads images."""

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
    read_labelled_images,
    refuse_other_sizes,
    refuse_unseen_labels,
)
from regard.data.labelled import split
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import accuracy, confusion
from regard.evaluation.score import Score
from regard.models.model import Model
from regard.models.vision import VisionConfig, VisionTransformer
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.box import model_that
from regard.verbs.data_fingerprints import refuse_other_data
from regard.verbs.tasks.classification import class_test_scores
from regard.verbs.tasks.recipe import Recipe, RecipeFile
from regard.verbs.tasks.task import TRIAL, HeldOutData, Measured, Say, Task, held_settings, model_config
from regard.weights.model_folder import LoadedModel

BATCH = 500  # images that are looked at together in validation and test


@dataclass(frozen=True, kw_only=True)
class ImagesSettings:
    """`[task]`."""

    kind: Literal["images"]


@dataclass(frozen=True, kw_only=True)
class ImagesDataSettings:
    """Where the images are. Without `valid`, a share of each class of the training images is put by."""

    train: ImageSettings
    valid: ImageSettings | None = None
    test: ImageSettings | None = None
    valid_share: float = 0.1
    class_names: tuple[str, ...] = ()  # without, classes are called by their numbers

    def __post_init__(self) -> None:
        if not 0 < self.valid_share < 1:
            raise RecipeError(f"data.valid_share = {self.valid_share} is no share", "0.1 is a tenth")
        if len(set(self.class_names)) < len(self.class_names):
            raise RecipeError("data.class_names has a name twice", "give each class a name of its own")


@dataclass(frozen=True, kw_only=True)
class ImagesRecipe(Recipe):
    """Data, augmentation, model, training."""

    model_kind: ClassVar[str] = "vision"
    task: ImagesSettings
    data: ImagesDataSettings
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)

    @property
    def measured(self) -> tuple[str, ...]:
        return ("accuracy",)

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = self.model.get("kind", self.model_kind)
        if kind != VisionConfig.kind:
            raise RecipeError(f"model.kind = {kind!r} reads no images", "leave model.kind out")
        if self.training.r_drop:
            raise RecipeError("training.r_drop is for translation", "leave it out")


class ImageClassification(Task):
    """Images to train on, to validate on, to test on; the pixels' mean and deviation are of the first."""

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
        loss, table = _look(model, self._valid, self._mean, self._deviation)
        return {"loss": loss, "accuracy": 100 * accuracy(table)}

    def test(self, model: Any) -> list[Score]:
        if self._test is None:
            return []
        return _measured(model, self._test, self._mean, self._deviation).scores


def _look(model: Model, images: Images, mean: float, deviation: float) -> tuple[float, np.ndarray]:
    """The mean loss of an image, and which classes are taken for which."""
    examples = ImageExamples(images, mean=mean, deviation=deviation)
    nll, said = 0.0, []
    with torch.no_grad():
        for numbers in np.array_split(np.arange(len(images)), -(-len(images) // BATCH)):
            batch = examples.batch(numbers, 0).to(model.device)
            logits = model(*batch.inputs).float()
            nll += float(F.cross_entropy(logits, batch.labels, reduction="sum"))
            said.append(logits.argmax(-1).cpu().numpy())
    table = confusion(images.labels, np.concatenate(said), model.config.num_labels)
    return nll / len(images), table


def _measured(model: Model, images: Images, mean: float, deviation: float) -> Measured:
    _, table = _look(model, images, mean, deviation)
    return Measured(scores=class_test_scores(table, f"images:{len(images)}"), confusion=table)


def hold(source: RecipeFile, loaded: LoadedModel, data: str | None) -> HeldOutData:
    """Test images of the size and the classes that the model knows."""
    config = model_that("classifies images", VisionTransformer, loaded).config
    given = cast(ImagesRecipe, source.recipe).data
    if data is None:
        settings, base = held_settings(given, None, source.base)
    else:
        settings, base = of_one_file(given.test or given.train, data), Path.cwd()
    images = read_labelled_images(settings, base)
    refuse_other_sizes(images.pixels, images.name, size=config.image_size, channels=config.channels)
    if (largest := int(images.labels.max())) >= config.num_labels:
        raise DataError(
            f"{images.name}: a label is {largest}, the model knows {config.num_labels} classes",
            "are they numbered from 0, as those that the model was trained on?",
        )
    return HeldOutData(
        counted=f"{len(images):,} images",
        measure=partial(_measured, images=images, mean=config.pixel_mean, deviation=config.pixel_std),
    )


def of_one_file(like: ImageSettings, data: str) -> ImageSettings:
    """An NPZ file with both, or an IDX file beside the one that has "labels" for "images" in its name."""
    folder, name = data[: data.rfind("/") + 1], data[data.rfind("/") + 1 :]
    labels = name if name.endswith(".npz") else name.replace("images", "labels").replace("idx3", "idx1")
    if labels == name and not name.endswith(".npz"):
        raise DataError(
            f"{data}: no file has the labels of these images",
            "give an NPZ file, or a name with `images` in it",
        )
    return replace(like, images=data, labels=folder + labels)


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> ImageClassification:
    """Read all images; they stay in memory, a byte a pixel."""
    recipe = cast(ImagesRecipe, source.recipe)
    data = recipe.data
    given = {"train": data.train, "valid": data.valid, "test": data.test}
    parts = {
        part: read_labelled_images(settings, source.base) for part, settings in given.items() if settings
    }
    refuse_other_data({part: (each.name, each.fingerprint()) for part, each in parts.items()}, folder)
    train = parts["train"]
    labels = _class_names(train, data.class_names)
    for part in parts.values():
        refuse_other_sizes(part.pixels, part.name, size=train.size, channels=train.channels)
        refuse_unseen_labels(part, train)
    if "valid" not in parts:
        kept, put_by = split(train.labels.tolist(), data.valid_share, recipe.training.seed)
        train, parts["valid"] = train.select(np.array(kept)), train.select(np.array(put_by, np.int64))
    say(f"training: {len(train):,} images of {train.size} x {train.size} pixels, {len(labels)} classes")
    for part, name in (("valid", "validation"), ("test", "test")):
        if part in parts:
            say(f"{name}: {len(parts[part]):,} images")
    if not len(parts["valid"]):
        raise DataError("no image is left to validate on", "raise data.valid_share, or give data.valid")
    if limit is not None:
        train = train.select(np.arange(min(limit, len(train))))
        for part in ("valid", "test"):
            if part in parts:
                parts[part] = parts[part].select(np.arange(min(TRIAL, len(parts[part]))))
    return ImageClassification(recipe, labels, train, parts["valid"], parts.get("test"))


def _class_names(train: Images, names: tuple[str, ...]) -> tuple[str, ...]:
    """A name for each class that a model of these images knows.

    Raises:
        DataError: labels are no numbers of classes, or there is one class only.
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
