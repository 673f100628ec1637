"""Classify images: the class and the probability of each image, in order."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from regard.data.files import locate
from regard.data.images import normalise, read_images, refuse_other_sizes
from regard.models.vision import VisionConfig, VisionTransformer
from regard.verbs.classify import ClassAnswer, ClassPrediction, candidates, class_answer
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.load_encoder import probabilities, refuse_other_labels
from regard.verbs.shared.model_loading import config_class_of, model_that
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.tasks.images import IMAGES_PER_BATCH

Pixels = UInt8[np.ndarray, "images channels height width"]


class ImageClassifier:
    """A model, loaded once, that classifies images. An image's class does not depend on its batch.

    Args:
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each image, most likely first.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel,
        *,
        top: int = 1,
        runtime: Runtime = DEFAULT_RUNTIME,
    ) -> None:
        loaded = open_model(model, runtime)
        self.loaded, self.labels, self.top = loaded, loaded.labels, top
        self.model = model_that("classifies images", VisionTransformer, loaded)
        refuse_other_labels(loaded, self.model.config.num_labels)

    def __call__(self, images: Pixels, name: str = "images") -> Iterator[ClassPrediction]:
        """The classes of each image; `name` is used in messages.

        Raises:
            DataError: the images do not have the model's size.
        """
        config = self.model.config
        refuse_other_sizes(images, name, size=config.image_size, channels=config.channels)
        for start in range(0, len(images), IMAGES_PER_BATCH):
            chunk = normalise(
                images[start : start + IMAGES_PER_BATCH], mean=config.pixel_mean, deviation=config.pixel_std
            )
            with torch.inference_mode():
                logits = self.model(chunk.to(self.model.device))
            for number, row in enumerate(probabilities(logits), start=start + 1):
                yield ClassPrediction(line=number, text="", candidates=candidates(row, self.labels, self.top))

    def file(self, path: str | Path) -> Iterator[ClassPrediction]:
        """The classes of the images in an IDX file or NPZ file (its array `images`): a path or NAME:FILE."""
        return self(read_images(locate(str(path), Path())), str(path))


def reads_images(model: str | Path) -> bool:
    """True if the model in a folder is for images."""
    return issubclass(config_class_of(model), VisionConfig)


@needs_model
@checked
@keyword_fields
def classify_images(
    input: str | Path | Pixels,
    *,
    model: AnyModel,
    top: int = 1,
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[ClassAnswer]:
    """The class of each image of an IDX or NPZ file (its array `images`), or of an array of bytes.

    A file is a path, or NAME:FILE of a known data set.

    With `top` above 1 the result for an image is a list of `top` (label, probability), most likely first.
    For many calls keep an `ImageClassifier`.

    Args:
        input: the file, or the array: images x channels x height x width.
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each image, most likely first.

    Raises:
        DataError: the file is damaged, or its images do not have the model's size.
        FolderError: the model is not for images.
    """
    classifier = ImageClassifier(model, top=top, runtime=runtime)
    images = classifier.file(input) if isinstance(input, str | Path) else classifier(input)
    return [class_answer(image, top) for image in images]
