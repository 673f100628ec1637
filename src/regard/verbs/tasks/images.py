"""Image classification by a vision Transformer."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar, cast

import numpy as np
import torch
import torch.nn.functional as F

from regard import console
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
from regard.data.labelled import LabelSet, split
from regard.data.labelled_image_files import LabelledImageFiles, is_list_of_files, read_labelled_files
from regard.data.resizing import ImageFit
from regard.errors import DataError, RecipeError
from regard.evaluation.classification import accuracy, confusion
from regard.evaluation.score import Score
from regard.models.model import Model
from regard.models.vision import VisionConfig, VisionTransformer
from regard.training.objective import LabelCrossEntropy, Objective
from regard.verbs.shared.model_images import fit_of
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
    """`[data]`: files of images and labels. Without `valid`, a share of each training class is held out.

    The classes of image files have the names of their folders, or the labels of the table. `image_size`,
    `channels` (1: grey, 3: colours) and `resizing` say what image files become: "square" resizes both sides,
    "shortest_edge" the shorter one, and the centre is cut out. None: as the pretrained model's, if there is
    one.
    """

    train: ImageSettings
    valid: ImageSettings | None = None
    test: ImageSettings | None = None
    class_names: tuple[str, ...] = ()  # empty: the names are the numbers of the classes
    image_size: int | None = None  # height and width of image files after resizing; None: 224
    channels: Literal[1, 3] | None = None  # None: 3
    resizing: Literal["square", "shortest_edge"] | None = None  # None: square

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.image_size is not None and self.image_size < 1:
            raise RecipeError(f"data.image_size = {self.image_size} is too small", "1 or more")
        if len(set(self.class_names)) < len(self.class_names):
            raise RecipeError("data.class_names has a name twice", "give each class another name")


@dataclass(frozen=True, kw_only=True)
class ImagesRecipe(Recipe):
    """Recipe of an image classifier: data, augmentation, model, training."""

    model_kind: ClassVar[str] = "vision"
    cuts_texts: ClassVar[bool] = False
    measured: ClassVar[tuple[str, ...]] = ("accuracy",)
    task: ImagesSettings
    data: ImagesDataSettings
    augmentation: AugmentationSettings = field(default_factory=AugmentationSettings)


class ImageClassification(Task):
    """Training, validation and test images, normalised by the training pixels' mean and deviation."""

    use = "regard classify --model . IMAGES"
    unit = "images"

    def __init__(
        self,
        recipe: ImagesRecipe,
        labels: tuple[str, ...],
        train: Images,
        valid: Images,
        test: Images | None,
        preprocessing: Mapping[str, Any],
    ) -> None:
        self.recipe: ImagesRecipe = recipe
        self.labels = labels
        self._train, self._valid, self._test = train, valid, test
        if "pixel_mean" not in preprocessing:
            mean, deviation = train.mean_and_deviation()
            preprocessing = {**preprocessing, "pixel_mean": mean, "pixel_std": deviation}
        self._mean, self._deviation = preprocessing["pixel_mean"], preprocessing["pixel_std"]
        sizes = {"image_size": train.size, "channels": train.channels}
        self.config = model_config(recipe, num_labels=len(labels), **{**sizes, **preprocessing})
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
    recipe = cast(ImagesRecipe, source.recipe)
    if data is None:
        settings, base = settings_of_test_data(recipe, loaded, None, source.base)
    else:
        settings, base = _settings_for_file(recipe.data.test or recipe.data.train, data), Path.cwd()
    images = _test_images(settings, base, loaded.labels, config)
    return HeldOutData(
        size=f"{len(images):,} images",
        evaluate=partial(_evaluate, images=images, mean=config.pixel_mean, deviation=config.pixel_std),
    )


def _test_images(settings: ImageSettings, base: Path, labels: Sequence[str], config: VisionConfig) -> Images:
    """Test images as the model reads them."""
    found = read_part(settings, base)
    if isinstance(found, LabelledImageFiles):
        classes = LabelSet.of_model(labels, {})
        return found.decoded(classes, fit_of(config), config.channels, None, console.note)
    refuse_other_sizes(found.pixels, found.name, size=config.image_size, channels=config.channels)
    if (largest := int(found.labels.max())) >= config.num_labels:
        raise DataError(
            f"{found.name}: a label is {largest}, but the model has {config.num_labels} classes",
            "number the classes from 0, as in the training data",
        )
    return found


def _settings_for_file(settings: ImageSettings, data: str) -> ImageSettings:
    """`settings` for other files: a folder of class folders, a table of image files, NPZ, or IDX of images.

    The labels of `train-images-idx3-ubyte` are in `train-labels-idx1-ubyte`.
    """
    if is_list_of_files(data, Path.cwd()):
        return ImageSettings(images=data)
    folder, name = data[: data.rfind("/") + 1], data[data.rfind("/") + 1 :]
    labels = name if name.endswith(".npz") else name.replace("images", "labels").replace("idx3", "idx1")
    if labels == name and not name.endswith(".npz"):
        raise DataError(
            f"{data}: cannot derive the name of its label file",
            "give a folder of class folders, a table, an NPZ file, or an IDX file with `images` in its name",
        )
    return replace(settings, images=data, labels=folder + labels)


def read_part(settings: ImageSettings, base: Path) -> Images | LabelledImageFiles:
    """The images of one part of the data; image files are not decoded yet.

    Raises:
        DataError: files are missing or damaged. RecipeError: a setting does not fit the kind of files.
    """
    if not is_list_of_files(settings.images, base):
        if not settings.labels:
            raise RecipeError(f"{settings.images} has no labels", "name their file: labels = FILE")
        return read_labelled_images(settings, base)
    if settings != ImageSettings(images=settings.images, first=settings.first):
        raise RecipeError(
            f"{settings.images} names its labels, and has no arrays",
            "leave out labels, images_array and labels_array",
        )
    return read_labelled_files(settings.images, base, settings.first)


def prepare(source: RecipeFile, folder: Path, *, say: Say, limit: int | None = None) -> ImageClassification:
    """Read all images, one byte a pixel: of arrays into memory, of image files into a file in `folder`."""
    recipe = cast(ImagesRecipe, source.recipe)
    data = recipe.data
    read = {part: read_part(settings, source.base) for part, settings in settings_by_part(data).items()}
    refuse_other_data({part: (each.name, each.fingerprint()) for part, each in read.items()}, folder)
    parts, labels, preprocessing = (
        _of_files(read, recipe, folder, say)
        if isinstance(read["train"], LabelledImageFiles)
        else _of_arrays(read, recipe)
    )
    train = parts["train"]
    say(f"training: {len(train):,} images of {train.size} x {train.size} pixels, {len(labels)} classes")
    for part in ("valid", "test"):
        if part in parts:
            say(f"{PART_NAMES[part]}: {len(parts[part]):,} images")
    if limit is not None:
        parts = {
            part: images.select(np.arange(len(images))[: examples_kept(part, limit)])
            for part, images in parts.items()
        }
    return ImageClassification(
        recipe, labels, parts["train"], parts["valid"], parts.get("test"), preprocessing
    )


Part = TypeVar("Part", Images, LabelledImageFiles)
Prepared = tuple[dict[str, Images], tuple[str, ...], dict[str, Any]]  # parts, classes, preprocessing


def _of_arrays(read: Mapping[str, Images | LabelledImageFiles], recipe: ImagesRecipe) -> Prepared:
    """The parts of images that are arrays of one size."""
    parts = _of_one_kind(read, Images)
    for name in ("image_size", "channels", "resizing"):
        if getattr(recipe.data, name) is not None:
            raise RecipeError(f"data.{name} is for image files, and these are arrays", "leave it out")
    train = parts["train"]
    labels = _class_names(train, recipe.data.class_names)
    for part in parts.values():
        refuse_other_sizes(part.pixels, part.name, size=train.size, channels=train.channels)
        refuse_unseen_labels(part, train)
    return _with_validation(parts, recipe), labels, {}


def _of_files(
    read: Mapping[str, Images | LabelledImageFiles], recipe: ImagesRecipe, folder: Path, say: Say
) -> Prepared:
    """The parts of image files, decoded, and how they were resized.

    A run from a pretrained model resizes, crops and scales them as that model does.
    """
    files = _of_one_kind(read, LabelledImageFiles)
    if recipe.data.class_names:
        raise RecipeError("data.class_names is for arrays", "rename the folders, or the labels of the table")
    train = files["train"]
    if len(set(train.labels)) < 2:
        raise DataError(
            f"{train.name}: all images have label {train.labels[0]}", "a classifier needs two classes or more"
        )
    classes = LabelSet.of(train.labels, {})
    for each in files.values():
        each.numbered(classes)  # refuses other labels, before anything is decoded
    preprocessing = _preprocessing(recipe.data, recipe.model.get("init", {}))
    fit = ImageFit(**{each.name: preprocessing[each.name] for each in dataclasses.fields(ImageFit)})
    parts = {
        part: each.decoded(classes, fit, preprocessing["channels"], folder, say)
        for part, each in _with_validation(files, recipe).items()
    }
    return parts, classes.names, preprocessing


def _preprocessing(data: ImagesDataSettings, init: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `VisionConfig` by which image files become pixels, those of `init` if it has them.

    Without `init` the scale of pixels is missing: it follows from the training images.
    """
    scale = ("pixel_mean", "pixel_std") if init else ()
    fields = ("image_size", "channels", "resizing", "resized_size", "resampling", "cropped", *scale)
    settings = {name: init.get(name, getattr(VisionConfig, name)) for name in fields}
    if data.image_size is not None and data.image_size != settings["image_size"]:
        settings |= {"image_size": data.image_size, "resized_size": None}
    if data.channels is not None:
        settings["channels"] = data.channels
    if data.resizing is not None:
        settings |= {"resizing": data.resizing, "cropped": data.resizing == "shortest_edge"}
    return settings


def _of_one_kind(read: Mapping[str, Images | LabelledImageFiles], kind: type[Part]) -> dict[str, Part]:
    """The parts, if all are files or all are arrays."""
    found = {part: each for part, each in read.items() if isinstance(each, kind)}
    if other := [part for part in read if part not in found]:
        raise RecipeError(
            f"data.{other[0]} and data.train: one has image files, and the other arrays",
            "give all parts as image files, or all as arrays",
        )
    return found


def _with_validation(parts: dict[str, Part], recipe: ImagesRecipe) -> dict[str, Part]:
    """The parts with validation images, which are a share of each training class if there are no others."""
    if "valid" not in parts:
        train = parts["train"]
        kept, held_out = split(list(train.labels), recipe.data.valid_share, recipe.training.seed)
        chosen = {"train": np.array(kept), "valid": np.array(held_out, np.int64)}
        parts = {**parts, **{part: train.select(examples) for part, examples in chosen.items()}}
    if not len(parts["valid"]):
        raise DataError("no image is left to validate on", "raise data.valid_share, or give data.valid")
    return parts


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
