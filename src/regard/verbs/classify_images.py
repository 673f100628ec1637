"""Classify images: the class and the probability of each image, in order."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.data.files import locate
from regard.data.images import normalise, read_images, refuse_other_sizes
from regard.errors import UserError
from regard.models.image_text import ImageText, ImageTextConfig
from regard.models.vision import VisionConfig, VisionTransformer
from regard.training.threads import unchanged_threads
from regard.verbs.classify import ClassAnswer, ClassPrediction, candidates, class_answer
from regard.verbs.embed import Embedder
from regard.verbs.embed_images import ImageEmbedder
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.load_encoder import probabilities, refuse_other_labels
from regard.verbs.shared.model_loading import config_class_of, model_that
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.tasks.images import IMAGES_PER_BATCH
from regard.weights.model_folder import LoadedModel

Pixels = UInt8[np.ndarray, "images channels height width"]


class ImageClassifier:
    """A model, loaded once, that classifies images. An image's class does not depend on its batch.

    An image-text model (CLIP) classifies by `labels`, texts such as "a photo of a cat": the probabilities are
    the softmax of the logits of these texts (Radford et al. 2021, section 3.1.2).

    Args:
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each image, most likely first.
        labels: for an image-text model, the text of each class.

    Raises:
        FolderError: the model is not for images.
        UserError: the model needs labels, or has its own.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(
        self,
        model: AnyModel,
        *,
        top: int = 1,
        labels: Sequence[str] = (),
        runtime: Runtime = DEFAULT_RUNTIME,
    ) -> None:
        loaded = open_model(model, runtime)
        self.loaded, self.top = loaded, top
        self.labels = tuple(labels)
        self._logits: _TrainedClasses | _DescribedClasses
        if isinstance(loaded.model, ImageText):
            self._logits = _DescribedClasses(loaded, self.labels, runtime)
        else:
            self._logits = _TrainedClasses(loaded, self.labels)
            self.labels = loaded.labels
        self.model = loaded.model

    def __call__(self, images: Pixels, name: str = "images") -> Iterator[ClassPrediction]:
        """The classes of each image; `name` is used in messages.

        Raises:
            DataError: the images do not fit the model.
        """
        number = 0
        for logits in self._logits(images, name):
            for row in probabilities(logits):
                number += 1
                yield ClassPrediction(line=number, text="", candidates=candidates(row, self.labels, self.top))

    def file(self, path: str | Path) -> Iterator[ClassPrediction]:
        """The classes of the images in an IDX file or NPZ file (its array `images`): a path or NAME:FILE."""
        return self(read_images(locate(str(path), Path())), str(path))


class _TrainedClasses:
    """The logits of the classes that a vision transformer was trained on."""

    def __init__(self, loaded: LoadedModel, labels: Sequence[str]) -> None:
        self.model = model_that("classifies images", VisionTransformer, loaded)
        if labels:
            raise UserError(
                f"{loaded.path}: this model has {len(loaded.labels)} classes of its own, not these labels",
                "leave out the labels, or give an image-text model such as CLIP",
            )
        refuse_other_labels(loaded, self.model.config.num_labels)

    def __call__(self, images: Pixels, name: str) -> Iterator[Float[Tensor, "images labels"]]:
        config = self.model.config
        refuse_other_sizes(images, name, size=config.image_size, channels=config.channels)
        for start in range(0, len(images), IMAGES_PER_BATCH):
            chunk = normalise(
                images[start : start + IMAGES_PER_BATCH], mean=config.pixel_mean, deviation=config.pixel_std
            )
            with torch.inference_mode():
                yield self.model(chunk.to(self.model.device))


class _DescribedClasses:
    """The logits of classes that are described by texts, by an image-text model."""

    def __init__(self, loaded: LoadedModel, labels: Sequence[str], runtime: Runtime) -> None:
        self.images = ImageEmbedder(loaded, runtime=runtime)
        texts = Embedder(loaded, runtime=runtime)
        repeated = next((label for label in labels if labels.count(label) > 1), None)
        if len(labels) < 2 or repeated is not None:
            found = f"the label {repeated!r} twice" if repeated is not None else f"{len(labels)} labels"
            raise UserError(
                f"{loaded.path}: this model classifies images by labels that are texts, and gets {found}",
                "give two or more, all different, such as 'a photo of a cat' (--label in the shell)",
            )
        vectors = [texts.vector(label, f"label {number}") for number, label in enumerate(labels, start=1)]
        self.labels = torch.stack(vectors)

    def __call__(self, images: Pixels, name: str) -> Iterator[Float[Tensor, "images labels"]]:
        model = self.images.model
        for image in self.images(images, name):
            with torch.inference_mode():
                vectors = self.labels.to(model.device), image.vector[None].to(model.device)
                yield model.logits(*vectors).T


def reads_images(model: str | Path) -> bool:
    """True if the model in a folder is for images."""
    return issubclass(config_class_of(model), VisionConfig | ImageTextConfig)


@needs_model
@checked
@keyword_fields
@unchanged_threads()
def classify_images(
    input: str | Path | Pixels,
    *,
    model: AnyModel,
    top: int = 1,
    labels: Sequence[str] = (),
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
        labels: for an image-text model (CLIP), the text of each class, such as "a photo of a cat".

    Raises:
        DataError: the file is damaged, or its images do not fit the model.
        FolderError: the model is not for images. UserError: the model needs labels, or has its own.
    """
    classifier = ImageClassifier(model, top=top, labels=labels, runtime=runtime)
    images = classifier.file(input) if isinstance(input, str | Path) else classifier(input)
    return [class_answer(image, top) for image in images]
