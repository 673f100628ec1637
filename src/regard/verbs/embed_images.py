"""Embed images: the vector of each image, in the space of the vectors of texts (CLIP)."""

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.data.image_files import has_image_name
from regard.errors import FolderError, UserError
from regard.models.image_text import ImageText
from regard.verbs.embed import DECIMAL_PLACES, Embedder
from regard.verbs.shared.any_model import AnyModel, open_model
from regard.verbs.shared.arguments import checked
from regard.verbs.shared.keyword_fields import keyword_fields
from regard.verbs.shared.model_images import Images, array_or_path, image_batches
from regard.verbs.shared.model_loading import model_that
from regard.verbs.shared.python_call import python_call
from regard.verbs.shared.runtime import DEFAULT_RUNTIME, Runtime
from regard.verbs.shared.suggested_recipes import needs_model

IMAGES_PER_BATCH = 32


@dataclass(frozen=True, kw_only=True)
class EmbeddedImage:
    """An image, by its number from 1 and its file, if it has one, and its vector, which has length 1."""

    image: int
    vector: Float[Tensor, " d_model"]
    file: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard embed --images FILE --json`."""
        vector = [round(x, DECIMAL_PLACES) for x in self.vector.tolist()]
        return {"image": self.image, **_file_field(self.file), "vector": vector}


@dataclass(frozen=True, kw_only=True)
class SimilarImage:
    """An image, as an `EmbeddedImage` has it, and the cosine similarity of its vector to that of a text."""

    image: int
    similarity: float
    file: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The line of `regard embed --images FILE --similar-to TEXT --json`."""
        similarity = round(self.similarity, DECIMAL_PLACES)
        return {"image": self.image, **_file_field(self.file), "similarity": similarity}


def _file_field(file: str | None) -> dict[str, str]:
    return {} if file is None else {"file": file}


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

    def __call__(self, images: Images, name: str = "images") -> Iterator[EmbeddedImage]:
        """The vector of each image; `name` is used in messages.

        Args:
            images: an array [images, channels, height, width], uint8; or one or several files, folders,
                images of Pillow, and arrays [channels, height, width].

        Raises:
            DataError: an image cannot be read, or does not fit the model.
        """
        number = itertools.count(1)
        for files, batch in image_batches(self.model.config, images, name, IMAGES_PER_BATCH):
            with torch.inference_mode():
                vectors = F.normalize(self.model.image_features(batch.to(self.model.device)), dim=-1)
            for file, vector in zip(files, vectors.float().cpu(), strict=True):
                yield EmbeddedImage(image=next(number), vector=vector, file=file)

    def file(self, path: str | Path) -> Iterator[EmbeddedImage]:
        """The vectors of the images in an image file, a folder, an IDX file or NPZ file (its array `images`).

        The path may be NAME:FILE of a known data set. Images of arrays have no file.
        """
        return self(array_or_path(path), str(path))

    def similar(self, images: Iterable[EmbeddedImage], to: str) -> list[SimilarImage]:
        """All images by their similarity to a text, most similar first; ties stay in their order.

        Raises:
            FolderError: the model has no text tower.
        """
        text = Embedder(self.loaded, runtime=self.runtime).vector(to, "the query")
        found = [
            SimilarImage(
                image=each.image,
                similarity=float(F.cosine_similarity(each.vector, text, dim=0)),
                file=each.file,
            )
            for each in images
        ]
        return sorted(found, key=lambda each: -each.similarity)


@needs_model
@python_call
def embed_images(
    images: Images, *, model: AnyModel, runtime: Runtime = DEFAULT_RUNTIME
) -> Float[Tensor, "images d_model"]:
    """The vectors of images: of files and folders, IDX and NPZ files, images of Pillow, or arrays of bytes.

    They are in the space of the vectors that `embed` gives of texts, and have length 1. For many calls keep
    an `ImageEmbedder`.

    Args:
        images: a path (an image file, a folder of them, an IDX or NPZ file, NAME:FILE of a known data set),
            an image of Pillow, or a list of these and of arrays [channels, height, width]; or one array
            [images, channels, height, width].
        model: a model folder, a Hugging Face folder of CLIP, or what `regard.load` gives.

    Raises:
        DataError: a file is damaged, or its images do not fit the model.
        FolderError: the model embeds no images. MissingExtra: image files need Pillow.
    """
    embedder = ImageEmbedder(model, runtime=runtime)
    vectors = [each.vector for each in embedder(images)]
    return torch.stack(vectors) if vectors else torch.zeros(0, embedder.model.config.d_model)


def refuse_image_files(texts: Iterable[str]) -> None:
    """Raise a UserError if a text is the name of an image file that exists: the image may be meant."""
    for text in texts:
        if "\n" not in text and has_image_name(Path(text)) and Path(text).is_file():
            raise UserError(f"{text} is an image file, and texts are embedded", f"give --images {text}")


def output_lines(found: EmbeddedImage | SimilarImage, *, as_json: bool = False) -> str:
    """One line of output, separated by tabs: the numbers of a vector, or SIMILARITY, IMAGE; or JSON.

    An image of a file has its name: FILE before the numbers, or instead of IMAGE.
    """
    if as_json:
        return json.dumps(found.to_dict(), ensure_ascii=False) + "\n"
    if isinstance(found, SimilarImage):
        return f"{found.similarity:.4f}\t{found.image if found.file is None else found.file}\n"
    numbers = [f"{number:.{DECIMAL_PLACES}f}" for number in found.vector.tolist()]
    return "\t".join(numbers if found.file is None else [found.file, *numbers]) + "\n"
