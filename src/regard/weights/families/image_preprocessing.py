"""How images are resized, cropped and scaled: preprocessor_config.json of CLIP, ViT and DeiT."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from regard.data.resizing import Resampling, Resizing
from regard.errors import FolderError
from regard.models.image_text import ImageTextConfig
from regard.models.vision import VisionConfig
from regard.weights.families.family import ConfigReader
from regard.weights.families.pixels import of_each, pixel_scale

RESAMPLINGS: Mapping[int, Resampling] = {2: "bilinear", 3: "bicubic"}  # by their numbers in Pillow
ImageConfig = TypeVar("ImageConfig", VisionConfig, ImageTextConfig)


@dataclass(frozen=True)
class ImageProcessor:
    """An image processor of transformers, by the beginning of its name: what a file leaves out."""

    name: str
    size: int | None  # None: the model's own
    resizing: Resizing
    resampling: int
    cropped: bool
    mean: Sequence[float] = (0.5,)
    std: Sequence[float] = (0.5,)


CLIP = ImageProcessor(
    "CLIP",
    224,
    "shortest_edge",
    3,
    True,
    mean=(0.48145466, 0.4578275, 0.40821073),
    std=(0.26862954, 0.26130258, 0.27577711),
)
VIT = ImageProcessor("ViT", None, "square", 2, False)
DEIT = ImageProcessor("DeiT", 256, "square", 3, True)


def with_preprocessing(
    config: ImageConfig, size: int, settings: ConfigReader, *processors: ImageProcessor
) -> ImageConfig:
    """The config with the preprocessing of its images of `size` x `size` pixels.

    The file names one of the `processors`, or means the first.

    Raises:
        FolderError: a setting cannot be followed, or gives images of another size.
    """
    processor = _named(settings, processors)
    settings.must_be("do_convert_rgb", config.channels == 3)
    settings.must_be("default_to_square", processor.resizing == "square")
    settings.must_be("use_square_size", False)
    settings.must_be("do_pad", False)
    settings.must_be("data_format", "channels_first")
    for name in ("pad_size", "input_data_format", "return_tensors", "device", "disable_grouping"):
        settings.must_be(name)
    settings.unused("processor_class", "_valid_processor_keys")
    resizing, resized_size = _resizing(settings, processor, size)
    cropped = settings.take(bool, "do_center_crop", default=processor.cropped)
    if cropped:
        name, found = "crop_size", _square(settings, "crop_size", size if processor.size is None else 224)
    else:
        settings.unused("crop_size")
        name, found = "size", size if resized_size is None else resized_size
    if found != size:
        raise FolderError(
            f"{settings.where}: {name} = {found}, but config.json has image_size = {size}",
            "use the files of one model",
        )
    mean, std = pixel_scale(settings, config.channels, processor.mean, processor.std)
    resampling = _resampling(settings, processor) if resizing else type(config).resampling
    settings.finish()
    return dataclasses.replace(
        config,
        resizing=resizing,
        resized_size=None if resized_size == size else resized_size,
        resampling=resampling,
        cropped=cropped,
        pixel_mean=mean,
        pixel_std=std,
    )


def _named(settings: ConfigReader, processors: Sequence[ImageProcessor]) -> ImageProcessor:
    """The processor that the file names; the first one if it names none."""
    names = {
        f"{each.name}{ending}": each
        for each in processors
        for ending in ("ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor")
    }
    for name in ("image_processor_type", "feature_extractor_type"):
        settings.must_be(name, *names)
        if (found := settings.table.get(name)) is not None:
            return names[found]
    return processors[0]


def preprocessor_table(
    config: VisionConfig | ImageTextConfig, size: int, processor: ImageProcessor
) -> dict[str, Any]:
    """The content of preprocessor_config.json for images of `size` x `size` pixels."""
    resized_size = config.resized_size or size
    square = {"height": resized_size, "width": resized_size}
    return {
        "image_processor_type": f"{processor.name}ImageProcessor",
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


def _resizing(
    settings: ConfigReader, processor: ImageProcessor, model_size: int
) -> tuple[Resizing | None, int | None]:
    """How images are resized, and to how many pixels."""
    if not settings.take(bool, "do_resize", default=True):
        settings.unused("size", "resample")
        return None, None
    absent = processor.size or model_size
    found = settings.table.get("size")
    if isinstance(found, dict) and "shortest_edge" not in found:
        return "square", _square(settings, "size", absent)
    settings.unused("size")
    match settings.table.get("size", absent):
        case {"shortest_edge": int(size), **others} if size > 0 and not any(others.values()):
            return "shortest_edge", size
        case int(size) if size > 0:
            return processor.resizing, size
        case other:
            raise FolderError(
                f"{settings.where}: size = {other!r} is not supported",
                "only shortest_edge, or height and width",
            )


def _square(settings: ConfigReader, name: str, absent: int) -> int:
    """The side of a square in pixels."""
    settings.unused(name)
    match settings.table.get(name, absent):
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


def _resampling(settings: ConfigReader, processor: ImageProcessor) -> Resampling:
    code = settings.take(int, "resample", default=processor.resampling)
    if code not in RESAMPLINGS:
        known = " and ".join(f"{number} ({name})" for number, name in RESAMPLINGS.items())
        raise FolderError(f"{settings.where}: resample = {code} is not supported", f"only {known} are")
    return RESAMPLINGS[code]
