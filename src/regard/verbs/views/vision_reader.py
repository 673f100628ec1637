"""Runs a vision transformer on an image: its patches and its classes."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from jaxtyping import UInt8

from regard.data.files import locate
from regard.data.images import normalise, read_images
from regard.errors import DataError
from regard.inspection.passes import image_pass
from regard.models.vision import VisionConfig, VisionTransformer
from regard.verbs.shared.model_images import array_pixels, file_pixels, holds_one_image
from regard.verbs.shared.model_loading import model_that
from regard.verbs.views.encoder_only_reader import top_labels
from regard.verbs.views.inspected_run import AnswerToken, InspectedImage, InspectedRun, TokenSequence
from regard.verbs.views.request import LookRequest, refuse_answers, refuse_many_tokens
from regard.verbs.views.streaming import ModelLock
from regard.weights.model_folder import LoadedModel

SPECIAL_LABELS = ("<class>", "<distillation>")


class VisionReader:
    """Classifies an image; the text of a request is an image file, or FILE:NUMBER, counted from 0.

    The image is shown as the model reads it, resized and cropped.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.model = model_that("classifies images", VisionTransformer, loaded)

    def read(self, request: LookRequest) -> InspectedRun:
        refuse_answers(request)
        config = self.model.config
        pixels = read_image(request.text.strip(), config)
        before = config.num_special_tokens
        refuse_many_tokens(config.grid**2 + before, "the image", None)
        request.changes.refuse_tokens_beyond(config.grid**2 + before)
        normalised_image = normalise(pixels[None], mean=config.pixel_mean, deviation=config.pixel_std)
        forced = image_pass(self.model, normalised_image)
        with torch.no_grad():
            logits = forced()
        image = InspectedImage(
            pixels=np.ascontiguousarray(pixels.transpose(1, 2, 0)),
            patch_size=config.patch_size,
            before=before,
        )
        return InspectedRun(
            loaded=self.loaded,
            request=request,
            forced=forced,
            sequences={"text": patch_sequence(image)},
            tokenizer=None,
            answer={"labels": top_labels(self.loaded, logits)},
            image=image,
        )

    def stream(self, request: LookRequest, lock: ModelLock) -> Iterator[AnswerToken]:
        return iter(())


def read_image(spec: str, config: VisionConfig) -> UInt8[np.ndarray, "channels size size"]:
    """An image file, or one image of an IDX or NPZ file (a path or NAME:FILE), as the model reads it.

    Raises:
        DataError: there is no such file or image, or the file has no images, or does not fit the model.
    """
    if not spec:
        raise DataError("no image is named", "an image file, or FILE:NUMBER, such as test-images.npz:0")
    file, colon, number = spec.rpartition(":")
    try:
        if not (colon and number.isdecimal() and len(number) < 10) or Path(spec).expanduser().exists():
            file, number = spec, "0"
        path = locate(file, Path())
        if holds_one_image(path) and file == spec:
            return file_pixels(config, path)
        images = read_images(path)
    except (OSError, RuntimeError, ValueError) as error:  # invalid file names
        raise DataError(f"{spec[:60]} names no image ({error})", "give FILE:NUMBER") from error
    if int(number) >= len(images):
        raise DataError(f"{file} has no image {number}", f"its {len(images):,} images count from 0")
    return array_pixels(config, images[int(number)], file)


def patch_sequence(image: InspectedImage) -> TokenSequence:
    """The patches, named by row and column, after the special tokens."""
    rows, columns = image.grid
    patches = [f"{row},{column}" for row in range(rows) for column in range(columns)]
    tokens = (*SPECIAL_LABELS[: image.before], *patches)
    special = tuple(position < image.before for position in range(len(tokens)))
    return TokenSequence(tokens=tokens, ids=tuple(range(len(tokens))), special=special)
