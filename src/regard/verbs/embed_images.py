"""Embed images: the vector of each image, in the space of the vectors of texts (CLIP)."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.data.files import locate
from regard.data.images import normalise, read_images, refuse_other_sizes
from regard.data.resizing import ImageFit
from regard.errors import DataError, FolderError
from regard.models.image_text import ImageText, ImageTextConfig
from regard.training.threads import unchanged_threads
from regard.verbs.embed import DECIMAL_PLACES, Embedder
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model

IMAGES_PER_BATCH = 32
MOST_RATIO = 100  # of the sides of an image, whose shorter one is resized to that of the model
Pixels = UInt8[np.ndarray, "images channels height width"]


@dataclass(frozen=True, kw_only=True)
class EmbeddedImage:
    """An image, by its number from 1, and its vector, which has length 1."""

    image: int
    vector: Float[Tensor, " d_model"]

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard embed --images FILE --json`."""
        return {"image": self.image, "vector": [round(x, DECIMAL_PLACES) for x in self.vector.tolist()]}


@dataclass(frozen=True, kw_only=True)
class SimilarImage:
    """An image, by its number from 1, and the cosine similarity of its vector to that of a text."""

    image: int
    similarity: float

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard embed --images FILE --similar-to TEXT --json`."""
        return {"image": self.image, "similarity": round(self.similarity, DECIMAL_PLACES)}


class ImageEmbedder:
    """An image-text model, loaded once, that embeds images. A vector depends on its image alone.

    Images of any size are resized and cropped as the model's own images were (Radford et al. 2021); grey ones
    have three equal channels. Vectors have length 1.

    Args:
        model: a model folder, a Hugging Face folder of CLIP, or what `regard.load` gives.

    Raises:
        FolderError: the model embeds no images.
    """

    @needs_model
    @checked
    @keyword_fields
    def __init__(self, model: AnyModel, *, runtime: Runtime = DEFAULT_RUNTIME) -> None:
        self.loaded, self.runtime = open_model(model, runtime), runtime
        self.model = model_that("embeds images", ImageText, self.loaded)
        if self.model.image is None:
            raise FolderError(
                f"{self.loaded.path}: this is not a model that embeds images: it has no image tower",
                f"it embeds texts: `regard embed --model {self.loaded.path} TEXT`",
            )

    def __call__(self, images: np.ndarray, name: str = "images") -> Iterator[EmbeddedImage]:
        """The vector of each image [images, channels, height, width], uint8; `name` is used in messages.

        Raises:
            DataError: the array is no such one, or the images have other channels, or another size where the
                model does not resize them.
        """
        for start in range(0, len(images), IMAGES_PER_BATCH):
            chunk = model_input(self.model.config, images[start : start + IMAGES_PER_BATCH], name)
            with torch.inference_mode():
                vectors = F.normalize(self.model.image_features(chunk.to(self.model.device)), dim=-1)
            for number, vector in enumerate(vectors.float().cpu(), start=start + 1):
                yield EmbeddedImage(image=number, vector=vector)

    def file(self, path: str | Path) -> Iterator[EmbeddedImage]:
        """The vectors of the images in an IDX file or NPZ file (its array `images`): a path or NAME:FILE."""
        return self(read_images(locate(str(path), Path())), str(path))

    def similar(self, images: Iterable[EmbeddedImage], to: str) -> list[SimilarImage]:
        """All images by their similarity to a text, most similar first; ties stay in their order.

        Raises:
            FolderError: the model has no text tower.
        """
        text = Embedder(self.loaded, runtime=self.runtime).vector(to, "the query")
        found = [
            SimilarImage(image=each.image, similarity=float(F.cosine_similarity(each.vector, text, dim=0)))
            for each in images
        ]
        return sorted(found, key=lambda each: -each.similarity)


def model_input(
    config: ImageTextConfig, images: np.ndarray, name: str
) -> Float[Tensor, "images {config.channels} {config.image_size} {config.image_size}"]:
    """Images as the model reads them: resized, cropped and normalised.

    Raises:
        DataError: they are no bytes, have other channels, are too narrow, or have another size after that.
    """
    assert config.image_size is not None
    if images.dtype != np.uint8 or images.ndim != 4:
        raise DataError(
            f"{name}: an array of {images.dtype} and {images.ndim} dimensions is no array of images",
            "give bytes (uint8, 0 to 255): images x channels x height x width",
        )
    short, long = sorted(images.shape[2:])
    if not 0 < long <= MOST_RATIO * short:
        raise DataError(
            f"{name}: images of {images.shape[2]} x {images.shape[3]} pixels are too narrow",
            f"crop them: one side may be at most {MOST_RATIO} times the other",
        )
    if config.channels == 3 and images.shape[1] == 1:
        images = images.repeat(3, axis=1)
    if images.shape[1] != config.channels:
        raise DataError(
            f"{name}: images of {images.shape[1]} channels, but the model reads {config.channels}",
            "convert them to the channels that the model was trained on",
        )
    fit = ImageFit(
        image_size=config.image_size,
        resizing=config.resizing,
        resized_size=config.resized_size or config.image_size,
        resampling=config.resampling,
        cropped=config.cropped,
    )
    fitted = np.stack([fit(image) for image in images])
    refuse_other_sizes(fitted, name, size=config.image_size, channels=config.channels)
    return normalise(fitted, mean=config.pixel_mean, deviation=config.pixel_std)


@needs_model
@checked
@keyword_fields
@unchanged_threads()
def embed_images(
    images: str | Path | Pixels, *, model: AnyModel, runtime: Runtime = DEFAULT_RUNTIME
) -> Float[Tensor, "images d_model"]:
    """The vectors of the images of an IDX or NPZ file (its array `images`), or of an array of bytes.

    They are in the space of the vectors that `embed` gives of texts, and have length 1. For many calls keep
    an `ImageEmbedder`.

    Args:
        images: a file (a path, or NAME:FILE of a known data set), or the array: images x channels x height x
            width.
        model: a model folder, a Hugging Face folder of CLIP, or what `regard.load` gives.

    Raises:
        DataError: the file is damaged, or its images do not fit the model.
        FolderError: the model embeds no images.
    """
    embedder = ImageEmbedder(model, runtime=runtime)
    embedded = embedder.file(images) if isinstance(images, str | Path) else embedder(images)
    vectors = [each.vector for each in embedded]
    return torch.stack(vectors) if vectors else torch.zeros(0, embedder.model.config.d_model)


def output_lines(found: EmbeddedImage | SimilarImage, *, as_json: bool = False) -> str:
    """One line of output, separated by tabs: the numbers of a vector, or SIMILARITY, IMAGE; or JSON."""
    if as_json:
        return json.dumps(found.to_dict()) + "\n"
    if isinstance(found, SimilarImage):
        return f"{found.similarity:.4f}\t{found.image}\n"
    return "\t".join(f"{number:.{DECIMAL_PLACES}f}" for number in found.vector.tolist()) + "\n"
