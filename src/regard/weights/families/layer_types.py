"""The types of layers in config.json, full and sliding attention, and their window; and back."""

from collections.abc import Sequence
from typing import Any

from regard.errors import FolderError
from regard.models.windows import WindowConfig
from regard.weights.families.family import ConfigReader

FULL, SLIDING = "full_attention", "sliding_attention"


def read_layer_types(settings: ConfigReader, usual: Sequence[str]) -> list[str]:
    """The type of each layer; `usual` are the types without `layer_types`."""
    kinds = settings.optional(list, "layer_types")
    if kinds is None:
        return list(usual)
    if len(kinds) != len(usual):
        raise FolderError(
            f"{settings.where}: layer_types has {len(kinds)} types for {len(usual)} layers",
            "use the config.json of the weights",
        )
    for kind in kinds:
        if kind not in (FULL, SLIDING):
            raise FolderError(
                f"{settings.where}: the type {kind!r} of layer_types is not supported",
                f"only {FULL} and {SLIDING} are",
            )
    return kinds


def window_settings(settings: ConfigReader, kinds: Sequence[str], window: int | None) -> dict[str, Any]:
    """Our settings for layers of these types; `window` is that of sliding attention."""
    if SLIDING not in kinds:
        return {"window": None}
    if window is None:
        raise FolderError(
            f"{settings.where}: layers have {SLIDING}, but sliding_window is null", f"give it, or only {FULL}"
        )
    pattern = next(
        tuple(kinds[:length])
        for length in range(1, len(kinds) + 1)
        if all(kind == kinds[place % length] for place, kind in enumerate(kinds))
    )
    return {"window": window, "layer_types": pattern if FULL in kinds else None}


def written_layer_types(config: WindowConfig) -> list[str]:
    """The type of each layer."""
    return [FULL if window is None else SLIDING for window in config.windows]
