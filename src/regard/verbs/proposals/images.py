"""`regard new` for image files: a folder of class folders, or a table of paths and labels."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from regard.counted import counted
from regard.data.files import file_digest
from regard.data.image_files import has_image_name, size_and_channels
from regard.data.images import ImageExamples
from regard.data.labelled import LabelSet
from regard.data.labelled_image_files import COLUMNS, LabelledImageFiles, labelled_rows, rows_of_folder
from regard.errors import DataError, did_you_mean
from regard.models.build import build_model
from regard.models.vision import VisionConfig
from regard.verbs.proposals.budget import Budget
from regard.verbs.proposals.input_files import InputFiles
from regard.verbs.proposals.labelled import table_of
from regard.verbs.proposals.published import (
    PART_COMMENTS,
    PublishedRecipe,
    RecipeChange,
    RecipeSection,
    adapted,
)
from regard.verbs.proposals.recipe_location import RecipeLocation, relative_to
from regard.verbs.proposals.run_plan import MIN_STEPS, RESERVED
from regard.verbs.proposals.template import head
from regard.verbs.proposals.training_speed import measure_image_speed
from regard.verbs.proposals.translation import minutes_in_words
from regard.verbs.proposals.written_recipe import WrittenRecipe, held_out, split_digest
from regard.verbs.shared.model_images import fit_of

MIN_IMAGES = 20
TIMED_IMAGES = 400
LARGEST_SIZE = 64  # of images on which a small model is trained
SMALLEST_SIZE = 8
MOST_PATCHES = 8  # in a row
NAMED = 3  # unreadable files that are named

# measured on MNIST's 55,200 training images of 28 x 28 pixels
IMAGES = PublishedRecipe(recipe="vit-mnist", low=0, high=0)
MEASURED_IMAGES, MEASURED_SIZE, MEASURED_PATCH = 55_200, 28, 7


@dataclass(kw_only=True)
class ImagePart:
    """The readable images of one part, and counts of the files that were left out."""

    path: Path
    images: LabelledImageFiles
    shapes: Counter[tuple[int, int, int]]  # height, width, channels
    skipped: Counter[str]
    problems: list[str]  # why files cannot be read


def new_images(
    files: InputFiles, columns: Sequence[str], budget: Budget, location: RecipeLocation, folder: Path
) -> WrittenRecipe:
    """Write tables of the images of each part and their classes, and the recipe of a classifier for them.

    Raises:
        DataError: there are too few images or classes, or a class of another part is unknown in training.
        MissingExtra: Pillow is not installed.
    """
    parts = {part: _read(files.path(part), columns) for part, _ in files.parts()}
    train = parts["train"]
    classes = _check_classes(parts)
    skipped = sum((each.skipped for each in parts.values()), Counter[str]())
    problems = [problem for each in parts.values() for problem in each.problems]
    images = {part: each.images for part, each in parts.items()}
    if "valid" not in images:
        images |= _split(train.images)
    for part, each in images.items():
        with (folder / f"{part}.tsv").open("w", encoding="utf-8", newline="\n") as file:
            file.write("\t".join(COLUMNS) + "\n")
            file.writelines(
                f"{_relative(path, location)}\t{label}\n"
                for path, label in zip(each.files, each.labels, strict=True)
            )
    plan = _plan(images["train"], train.shapes, classes, budget)
    about = f"{len(images['train']):,} images of {files.path('train').name} and their classes"
    data = "\n".join(
        [_data_section(plan), *(_section(part, location) for part in PART_COMMENTS if part in images)]
    )
    size = plan.image_size
    cores = "" if plan.threads is None else f" of {counted(plan.threads, 'core')}"
    return WrittenRecipe(
        text=adapted(IMAGES.text(), head(location.name, about), data, plan.changes),
        counts={part: len(each) for part, each in images.items()},
        unit="images",
        skipped=skipped,
        summary=f"{len(classes.names)} classes, images of {size} x {size} pixels, the model of"
        f" recipes/{IMAGES.recipe}, {plan.max_steps:,} updates ({counted(round(plan.epochs), 'epoch')}),"
        f" {minutes_in_words(plan.minutes)}{cores} on this machine",
        warnings=problems[:NAMED],
    )


# Reading


def _read(path: Path, columns: Sequence[str]) -> ImagePart:
    """The images of a part whose headers can be read."""
    skipped, shapes, problems = Counter[str](), Counter[tuple[int, int, int]](), list[str]()
    if path.is_dir():
        rows = rows_of_folder(path)
        skipped["not named as images"] = _other_files(path)
    else:
        table = table_of(str(path))
        rows = list(labelled_rows(table, table.columns(columns or COLUMNS)))
    found = list[tuple[Path, str, int, str]]()  # file, label, line, digest
    for file, label, line in rows:
        label = " ".join(label.split())
        if not label or label.lower() == "nan":
            skipped["without a label"] += 1
            continue
        if any(character in str(file) for character in "\t\r\n"):
            skipped["with a tab or a line feed in the name"] += 1
            continue
        try:
            shape, digest = size_and_channels(file), file_digest(file)
        except DataError as error:
            skipped["unreadable"] += 1
            problems.append(f"left out: {error.message}")
            continue
        shapes[shape] += 1
        found.append((file, label, line, digest))
    files, labels, lines, digests = zip(*found, strict=True) if found else ((), (), (), ())
    images = LabelledImageFiles(
        files=files,
        labels=labels,
        lines=lines,
        digests=digests,
        name=str(path),
        is_table=not path.is_dir(),
    )
    return ImagePart(path=path, images=images, shapes=shapes, skipped=skipped, problems=problems)


def _other_files(folder: Path) -> int:
    """The number of files in the folder that are not named as images are, hidden ones left out."""
    return sum(
        each.is_file() and not has_image_name(each)
        for each in folder.rglob("*")
        if not any(part.startswith(".") for part in each.relative_to(folder).parts)
    )


def _check_classes(parts: Mapping[str, ImagePart]) -> LabelSet:
    """The classes of the training images; refuses too few, and others in other parts."""
    train = parts["train"]
    counts = Counter(train.images.labels)
    if len(train.images) < MIN_IMAGES:
        raise DataError(
            f"{train.path}: {len(train.images)} images are too few to learn from"
            f" ({sum(train.skipped.values())} files were left out)",
            f"give {MIN_IMAGES} or more; a usable model needs some hundreds of each class",
        )
    if len(counts) == 1:
        raise DataError(
            f"{train.path}: all images have one class, {next(iter(counts))!r}",
            "give images of two classes or more, each in a folder of its own",
        )
    if len(counts) > len(train.images) / 2:
        raise DataError(
            f"{train.path}: {len(counts):,} classes for {len(train.images):,} images are too many",
            "name the columns: --columns IMAGE,LABEL",
        )
    for part in parts.values():
        for file, label in zip(part.images.files, part.images.labels, strict=True):
            if label not in counts:
                raise DataError(
                    f"{file}: no training image has the class {label!r}", did_you_mean(label, counts)
                )
    return LabelSet.of(train.images.labels, {})


def _split(train: LabelledImageFiles) -> dict[str, LabelledImageFiles]:
    """The images to train on and to validate on: a share of each class, chosen by the digest of the file."""
    groups: dict[str, list[str]] = {}
    for digest, label in zip(train.digests, train.labels, strict=True):
        groups.setdefault(label, []).append(digest)
    chosen = set[int]().union(*(held_out(digests) for digests in groups.values() if len(set(digests)) > 1))
    numbers = {"train": list[int](), "valid": list[int]()}
    for number, digest in enumerate(train.digests):
        numbers["valid" if split_digest(digest) in chosen else "train"].append(number)
    if not numbers["valid"] or not numbers["train"]:
        raise DataError(f"{train.name}: all its images are the same", "give different images")
    return {part: train.select(np.array(keep)) for part, keep in numbers.items()}


def _relative(file: Path, location: RecipeLocation) -> str:
    """The path of an image relative to the folder of the recipe's data, if both share a folder."""
    text = relative_to(location.data, file)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"{text!r} cannot be written in UTF-8", "rename the file") from None
    return text


# Proposal


@dataclass(frozen=True, kw_only=True)
class ImagePlan:
    """A run for the images: their size, the changes to the published recipe, and the expected time."""

    image_size: int
    channels: int
    changes: dict[str, RecipeChange]
    max_steps: int
    epochs: float
    minutes: float
    threads: int | None  # None: a GPU


def _plan(
    train: LabelledImageFiles, shapes: Mapping[tuple[int, int, int], int], classes: LabelSet, budget: Budget
) -> ImagePlan:
    """A run of as many updates as the amount of images deserves and the time allows."""
    size = image_size(shapes)
    patch = MEASURED_PATCH
    if size != MEASURED_SIZE:
        patch = next(each for each in range(-(-size // MOST_PATCHES), size + 1) if size % each == 0)
    channels = max(channels for _, _, channels in shapes)
    table, count = IMAGES.table(), len(train)
    batch = min(table["batches"]["batch_examples"], max(10, count // 5))
    config = VisionConfig.from_table(
        {**table["model"], "patch_size": patch},
        num_labels=len(classes.names),
        image_size=size,
        channels=channels,
    )
    speed = measure_image_speed(
        build_model(config, seed=1),
        _sample(train, classes, config),
        batch,
        budget.device,
        budget.cores,
    )
    deserved = table["training"]["max_steps"] * math.sqrt(count / MEASURED_IMAGES)
    affordable = 60 * budget.minutes * (1 - RESERVED) * speed.target_tokens_per_second / batch
    steps = int(float(f"{max(MIN_STEPS, min(deserved, affordable)):.1e}"))
    every = max(10, steps // 10)
    training = {"max_steps": steps, "validate_every": every, "save_every": every}
    changes = {f"training.{name}": RecipeChange(value=value) for name, value in training.items()}
    epochs = steps / -(-count // batch)  # the last batch of an epoch is smaller
    changes["training.max_steps"] = RecipeChange(value=steps, comment=f"updates; about {epochs:.0f} epochs")
    changes |= {
        "training.schedule.warmup_steps": RecipeChange(value=max(10, min(200, steps // 10))),
        "model.patch_size": RecipeChange(
            value=patch, comment=f"pixels: {(size // patch) ** 2} patches per image"
        ),
        "batches.batch_examples": RecipeChange(value=batch),
        "augmentation.shift": RecipeChange(
            value=round(table["augmentation"]["shift"] * size / MEASURED_SIZE, 1)
        ),
    }
    return ImagePlan(
        image_size=size,
        channels=channels,
        changes=changes,
        max_steps=steps,
        epochs=epochs,
        minutes=steps * batch / speed.target_tokens_per_second / (1 - RESERVED) / 60,
        threads=speed.threads if budget.device.type == "cpu" else None,
    )


def image_size(shapes: Mapping[tuple[int, int, int], int]) -> int:
    """The size to train on: that of small square images of one size, else a power of two up to 64."""
    sides = sorted(min(height, width) for (height, width, _), count in shapes.items() for _ in range(count))
    sizes = {side for height, width, _ in shapes for side in (height, width)}
    [largest] = sorted(sizes)[-1:]
    if len(sizes) == 1 and SMALLEST_SIZE <= largest <= LARGEST_SIZE and largest % 4 == 0:
        return largest
    return min(LARGEST_SIZE, max(16, 2 ** round(math.log2(sides[len(sides) // 2]))))


def _sample(train: LabelledImageFiles, classes: LabelSet, config: VisionConfig) -> ImageExamples:
    """Some of the images, evenly spaced, to measure the speed with."""
    some = train.select(np.arange(0, len(train), -(-len(train) // TIMED_IMAGES)))
    images = some.decoded(classes, fit_of(config), config.channels, None, lambda _: None)
    mean, deviation = images.mean_and_deviation()
    return ImageExamples(images, mean=mean, deviation=deviation)


def _data_section(plan: ImagePlan) -> str:
    return str(
        RecipeSection(
            title="data",
            settings={
                "image_size": (plan.image_size, "height and width in pixels; images are resized to it"),
                "channels": (plan.channels, "1: grey, 3: red, green and blue"),
                "resizing": ("square", "both sides; shortest_edge keeps the shape, and cuts the centre out"),
            },
        )
    )


def _section(part: str, location: RecipeLocation) -> str:
    comment = "paths of images and their classes; or a folder with a folder for each class"
    return str(
        RecipeSection(
            title=f"data.{part}",
            about=PART_COMMENTS[part],
            settings={"images": (location.file(f"{part}.tsv"), comment if part == "train" else "")},
        )
    )
