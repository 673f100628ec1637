"""How models of Hugging Face scale pixels: the settings of preprocessor_config.json."""

import math
from collections.abc import Sequence

from regard.data.images import PixelNumber
from regard.errors import FolderError
from regard.weights.families.family import ConfigReader, refuse_large_integer


def pixel_scale(
    settings: ConfigReader, channels: int, means: Sequence[float], stds: Sequence[float]
) -> tuple[PixelNumber, PixelNumber]:
    """The mean and standard deviation with which the model normalises pixels between 0 and 1.

    Each is a number, or one for each channel. transformers multiplies pixels of 0 to 255 by a factor and then
    normalises them; both are optional. `means` and `stds` are those of a file that has none.

    Raises:
        FolderError: a setting has another type, or is out of range.
    """
    factor = 1 / 255
    if settings.take(bool, "do_rescale", default=True):
        factor = settings.take(float, "rescale_factor", default=factor)
    else:
        settings.unused("rescale_factor")
        factor = 1.0
    if settings.take(bool, "do_normalize", default=True):
        means, stds = (
            _numbers(settings, name, absent, channels)
            for name, absent in (("image_mean", means), ("image_std", stds))
        )
    else:
        means, stds = (0.0,), (1.0,)
        settings.unused("image_mean", "image_std")
    scale = 255 * factor
    if not (
        0 < scale < math.inf
        and all(math.isfinite(mean / scale) for mean in means)
        and all(0 < std / scale < math.inf for std in stds)
    ):
        raise FolderError(
            f"{settings.where}: rescale_factor = {factor}, image_mean = {_one(means)} and"
            f" image_std = {_one(stds)} cannot scale pixels",
            "the factor and the standard deviation must be above 0",
        )
    mean, std = ([value / scale for value in values] for values in (means, stds))
    return _one(mean), _one(std)


def _numbers(settings: ConfigReader, name: str, absent: Sequence[float], channels: int) -> Sequence[float]:
    """A number for all channels, or one for each."""
    settings.unused(name)
    values = settings.table.get(name, list(absent))
    values = values if isinstance(values, list) else [values]
    if len(values) not in (1, channels) or any(type(value) not in (int, float) for value in values):
        raise FolderError(
            f"{settings.where}: {name} = {values} is not supported",
            f"give one number for all channels, or {channels}",
        )
    for value in values:
        refuse_large_integer(value, f"{settings.where}: {name}")
    return [float(value) for value in values]


def _one(values: Sequence[float]) -> PixelNumber:
    """The number that all channels have; else one for each."""
    return values[0] if len(set(values)) == 1 else tuple(values)


def of_each(value: PixelNumber, channels: int) -> list[float]:
    """A number for each channel, as files have them."""
    return list(value) if isinstance(value, tuple) else [value] * channels
