"""Classify images: the class and the probability of each image, in order."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from regard.errors import UserError
from regard.models.image_text import ImageText, ImageTextConfig
from regard.models.vision import VisionConfig, VisionTransformer
from regard.verbs.classify import ClassAnswer, ClassPrediction, candidates, class_answer
from regard.verbs.embed import Embedder
from regard.verbs.embed_images import ImageEmbedder
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.load_encoder import probabilities, refuse_other_labels
from regard.verbs.shared.model_images import Images, array_or_path, image_batches
from regard.verbs.shared.model_loading import config_class_of, model_that
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model
from regard.verbs.tasks.images import IMAGES_PER_BATCH
from regard.weights.model_folder import LoadedModel


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

    def __call__(self, images: Images, name: str = "images") -> Iterator[ClassPrediction]:
        """The classes of each image; `name` is used in messages.

        Args:
            images: an array [images, channels, height, width], uint8; or one or several files, folders,
                images of Pillow, and arrays [channels, height, width].

        Raises:
            DataError: an image cannot be read, or does not fit the model.
        """
        number = itertools.count(1)
        for files, logits in self._logits(images, name):
            for file, row in zip(files, probabilities(logits), strict=True):
                found = candidates(row, self.labels, self.top)
                yield ClassPrediction(line=next(number), text="", candidates=found, file=file)

    def file(self, path: str | Path) -> Iterator[ClassPrediction]:
        """The classes of the images in an image file, a folder, an IDX file or NPZ file (its array `images`).

        The path may be NAME:FILE of a known data set. Images of arrays have no file.
        """
        return self(array_or_path(path), str(path))


Logits = Iterator[tuple[Sequence[str | None], Float[Tensor, "images labels"]]]  # with the files


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

    def __call__(self, images: Images, name: str) -> Logits:
        for files, batch in image_batches(self.model.config, images, name, IMAGES_PER_BATCH):
            with torch.inference_mode():
                yield files, self.model(batch.to(self.model.device))


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

    def __call__(self, images: Images, name: str) -> Logits:
        model = self.images.model
        for image in self.images(images, name):
            with torch.inference_mode():
                vectors = self.labels.to(model.device), image.vector[None].to(model.device)
                yield [image.file], model.logits(*vectors).T


def reads_images(model: str | Path) -> bool:
    """True if the model in a folder is for images."""
    return issubclass(config_class_of(model), VisionConfig | ImageTextConfig)


@needs_model
@python_call
def classify_images(
    input: Images,
    *,
    model: AnyModel,
    top: int = 1,
    labels: Sequence[str] = (),
    runtime: Runtime = DEFAULT_RUNTIME,
) -> list[ClassAnswer]:
    """The class of each image: of files and folders, IDX and NPZ files, Pillow's images, arrays of bytes.

    A folder means the images in it and in its folders, sorted by name.

    With `top` above 1 the result for an image is a list of `top` (label, probability), most likely first.
    For many calls keep an `ImageClassifier`.

    Args:
        input: a path (an image file, a folder of them, an IDX or NPZ file, NAME:FILE of a known data set),
            an image of Pillow, or a list of these and of arrays [channels, height, width]; or one array
            [images, channels, height, width].
        model: a model or run folder, or what `regard.load` gives.
        top: how many classes to return for each image, most likely first.
        labels: for an image-text model (CLIP), the text of each class, such as "a photo of a cat".

    Raises:
        DataError: a file is damaged, or its images do not fit the model.
        FolderError: the model is not for images. UserError: the model needs labels, or has its own.
        MissingExtra: image files need Pillow.
    """
    classifier = ImageClassifier(model, top=top, labels=labels, runtime=runtime)
    return [class_answer(image, top) for image in classifier(input)]
