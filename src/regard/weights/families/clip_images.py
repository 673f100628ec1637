"""How CLIP's images are resized, cropped and scaled: preprocessor_config.json."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from regard.data.resizing import Resampling, Resizing
from regard.errors import FolderError
from regard.models.image_text import ImageTextConfig
from regard.weights.families.family import ConfigReader
from regard.weights.families.pixels import of_each, pixel_scale

RESAMPLINGS: Mapping[int, Resampling] = {2: "bilinear", 3: "bicubic"}  # by their numbers in Pillow
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
IMAGE_SIZE = 224  # of a file that names none


def with_preprocessing(config: ImageTextConfig, size: int, settings: ConfigReader) -> ImageTextConfig:
    """The config with the preprocessing of its images of `size` x `size` pixels.

    Raises:
        FolderError: a setting cannot be followed, or gives images of another size.
    """
    settings.must_be("image_processor_type", *(f"CLIPImageProcessor{each}" for each in ("", "Fast", "Pil")))
    settings.must_be("feature_extractor_type", "CLIPFeatureExtractor", "CLIPImageProcessor")
    settings.must_be("do_convert_rgb", config.channels == 3)
    settings.must_be("default_to_square", False)
    settings.must_be("use_square_size", False)
    settings.must_be("do_pad", False)
    settings.must_be("data_format", "channels_first")
    for name in ("pad_size", "input_data_format", "return_tensors", "device", "disable_grouping"):
        settings.must_be(name)
    settings.unused("processor_class")
    resizing, resized_size = _resizing(settings)
    cropped = settings.take(bool, "do_center_crop", default=True)
    if cropped:
        name, found = "crop_size", _square(settings, "crop_size")
    else:
        settings.unused("crop_size")
        name, found = "size", size if resized_size is None else resized_size
    if found != size:
        raise FolderError(
            f"{settings.where}: {name} = {found}, but config.json has image_size = {size}",
            "use the files of one model",
        )
    mean, std = pixel_scale(settings, config.channels, MEAN, STD)
    return dataclasses.replace(
        config,
        resizing=resizing,
        resized_size=None if resized_size == size else resized_size,
        resampling=_resampling(settings) if resizing else "bicubic",
        cropped=cropped,
        pixel_mean=mean,
        pixel_std=std,
    )


def preprocessor_table(config: ImageTextConfig, size: int) -> dict[str, Any]:
    """The content of preprocessor_config.json for images of `size` x `size` pixels."""
    resized_size = config.resized_size or size
    square = {"height": resized_size, "width": resized_size}
    return {
        "image_processor_type": "CLIPImageProcessor",
        "do_convert_rgb": config.channels == 3,
        "do_resize": config.resizing is not None,
        "size": square if config.resizing == "square" else {"shortest_edge": resized_size},
        "resample": next(code for code, name in RESAMPLINGS.items() if name == config.resampling),
        "do_center_crop": config.cropped,
        "crop_size": {"height": size, "width": size},
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": of_each(config.pixel_mean, config.channels),
        "image_std": of_each(config.pixel_std, config.channels),
    }


def _resizing(settings: ConfigReader) -> tuple[Resizing | None, int | None]:
    """How images are resized, and to how many pixels."""
    if not settings.take(bool, "do_resize", default=True):
        settings.unused("size", "resample")
        return None, None
    if isinstance(found := settings.table.get("size"), dict) and "shortest_edge" not in found:
        return "square", _square(settings, "size")
    settings.unused("size")
    match settings.table.get("size", IMAGE_SIZE):
        case {"shortest_edge": int(size), **others} if size > 0 and not any(others.values()):
            return "shortest_edge", size
        case int(size) if size > 0:
            return "shortest_edge", size
        case other:
            raise FolderError(
                f"{settings.where}: size = {other!r} is not supported",
                "only shortest_edge, or height and width",
            )


def _square(settings: ConfigReader, name: str) -> int:
    """The side of a square in pixels."""
    settings.unused(name)
    match settings.table.get(name, IMAGE_SIZE):
        case {"height": int(height), "width": int(width), **others} if height == width > 0 and not any(
            others.values()
        ):
            return height
        case int(side) if side > 0:
            return side
        case other:
            raise FolderError(
                f"{settings.where}: {name} = {other!r} is not supported", "only equal height and width are"
            )


def _resampling(settings: ConfigReader) -> Resampling:
    code = settings.take(int, "resample", default=3)
    if code not in RESAMPLINGS:
        known = " and ".join(f"{number} ({name})" for number, name in RESAMPLINGS.items())
        raise FolderError(f"{settings.where}: resample = {code} is not supported", f"only {known} are")
    return RESAMPLINGS[code]
