"""The images that a model reads as patches: the checks of their settings."""

from collections.abc import Sequence

from regard.errors import ConfigError

PixelScale = float | tuple[float, ...]  # a number, or one for each channel


def check_patches(image_size: int, patch_size: int) -> None:
    """Raise a ConfigError unless patches fill an image."""
    if image_size % patch_size:
        fitting = [size for size in range(2, image_size + 1) if image_size % size == 0]
        raise ConfigError(
            f"patch_size = {patch_size} does not divide image_size = {image_size}",
            f"patch_size may be {', '.join(map(str, fitting))}",
        )


def check_pixels(channels: int, pixel_mean: PixelScale, pixel_std: PixelScale) -> None:
    """Raise a ConfigError unless there is one number, or one for each channel, and no deviation of 0."""
    for name, value in (("pixel_mean", pixel_mean), ("pixel_std", pixel_std)):
        if isinstance(value, Sequence) and len(value) != channels:
            raise ConfigError(
                f"{name} has {len(value)} numbers for {channels} channels",
                "give one number, or one for each channel",
            )
    if min(pixel_std if isinstance(pixel_std, Sequence) else (pixel_std,)) <= 0:
        raise ConfigError(f"pixel_std = {pixel_std} is out of range", "pixel_std must be above 0")
