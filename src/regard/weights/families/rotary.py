"""Rotary positions in config.json: `rope_theta`, `rope_scaling`, `rope_parameters`; and back."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from regard.errors import ConfigError, FolderError, did_you_mean
from regard.layers.rotary_scaling import RotaryScaling
from regard.models.config import TransformerConfig
from regard.models.setting_types import rotary_scaling_of
from regard.models.windows import WindowConfig
from regard.weights.families.family import ConfigReader, refuse_large_integer

# for each type: the settings of config.json and ours
NAMES: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "linear": {"factor": "factor"},
    "dynamic": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "original_max_position_embeddings": "original_length",
        "low_freq_factor": "low_frequency",
        "high_freq_factor": "high_frequency",
    },
    "yarn": {
        "factor": "factor",
        "original_max_position_embeddings": "original_length",
        "beta_fast": "beta_fast",
        "beta_slow": "beta_slow",
        "attention_factor": "attention_factor",
        "truncate": "truncate",
    },
}
REQUIRED = {
    "linear": ("factor",),
    "dynamic": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "yarn": ("factor",),
}
MSCALES = ("mscale", "mscale_all_dim")  # of yarn, as an attention_factor
GENERAL = ("rope_type", "type", "rope_theta", "partial_rotary_factor")
USUAL_NAMES = ("rope_theta", "partial_rotary_factor")
LAYER_TYPES = ("full_attention", "sliding_attention")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rotary:
    """The rotary positions of a config.json."""

    base: float
    rotated: float  # the part of the features of a head that is rotated
    scaling: RotaryScaling | None

    def settings(self, d_head: int) -> dict[str, Any]:
        """Our settings."""
        width = int(d_head * self.rotated)
        return {
            "positions": "rotary",
            "rotary_base": self.base,
            "rotary_dim": None if width == d_head else width,
            "rotary_scaling": self.scaling,
        }


def read_rotary(
    settings: ConfigReader,
    max_positions: int,
    *,
    rotated: float = 1.0,
    partial: bool = False,
    names: tuple[str, str] = USUAL_NAMES,
) -> Rotary:
    """The rotary positions of a config.json.

    `rotated`: the part of the features that is rotated if the file does not say. `partial`: the family may
    rotate a part of them; other families ignore `partial_rotary_factor`, so it is refused there. `names`: of
    the base and of that part at the top of the file.
    """
    table = _table(settings, names)
    kind = table.get("rope_type", table.get("type", "default"))
    if not isinstance(kind, str) or kind not in NAMES:
        raise FolderError(
            f"{settings.where}: rotary positions of type {kind!r} are not supported",
            did_you_mean(str(kind), NAMES),
        )
    known = {*GENERAL, *NAMES[kind], *(MSCALES if kind == "yarn" else ())}
    for name, value in table.items():
        refuse_large_integer(value, f"{settings.where}: {name}")
        if name not in known and value is not None:
            raise FolderError(
                f"{settings.where}: {name} = {value!r} of rotary positions is not supported",
                f"with the type {kind!r} only {', '.join(sorted(known))} are",
            )
    part = _number(settings, table, "partial_rotary_factor", rotated)
    if not partial and part != 1.0:
        raise FolderError(
            f"{settings.where}: partial_rotary_factor = {part} of rotary positions is not supported",
            "only 1.0 is in this family",
        )
    return Rotary(
        base=_number(settings, table, "rope_theta", 10000.0),
        rotated=part,
        scaling=_scaling(settings, kind, table, max_positions),
    )


def read_rotary_by_type(
    settings: ConfigReader, max_positions: int, *, bases: tuple[str, str], usual: tuple[float, float]
) -> tuple[Rotary, Rotary]:
    """The rotary positions of layers with full attention, and those of layers with a window, unscaled.

    `rope_parameters` has a table for each type of layer. `bases`: the names of both bases at the top of the
    file; `usual`: the bases if the file does not say.
    """
    tables = _tables_by_type(settings)
    found = []
    for kind, name, base in zip(LAYER_TYPES, bases, usual, strict=True):
        top = settings.take(float, name, default=base)
        where = f"{settings.where}: {kind}"
        found.append(read_rotary(ConfigReader({"rope_theta": top, **tables[kind]}, where), max_positions))
    if found[1].scaling is not None:
        raise FolderError(
            f"{settings.where}: rope_parameters of sliding_attention are scaled, which is not supported",
            "only those of full_attention may be",
        )
    return found[0], found[1]


def layered_rotary(full: Rotary, local: Rotary, d_head: int, windows: Mapping[str, Any]) -> dict[str, Any]:
    """Our settings for these rotary positions, in a model with these `windows` (see `window_settings`)."""
    if windows["window"] is None:
        return full.settings(d_head)
    if windows["layer_types"] is None:
        return local.settings(d_head)
    same = full.base == local.base and full.scaling is None
    return {**full.settings(d_head), "local_rotary_base": None if same else local.base}


def _tables_by_type(settings: ConfigReader) -> dict[str, dict[str, Any]]:
    """The settings of each type of layer; `rope_scaling`, of older files, is that of full attention."""
    scaling, tables = settings.optional(dict, "rope_scaling"), settings.optional(dict, "rope_parameters")
    if scaling and tables:
        raise FolderError(f"{settings.where}: rope_parameters and rope_scaling are both set", "remove one")
    if tables is None:
        if scaling and "type" in scaling and scaling["type"] != scaling.get("rope_type", "default"):
            raise FolderError(
                f"{settings.where}: type = {scaling['type']!r} of rope_scaling is not supported",
                "transformers 4 scales by it, 5 does not in this family: call it rope_type, or remove it",
            )
        return {"full_attention": {"rope_parameters": scaling or {}}, "sliding_attention": {}}
    for kind in tables:
        if kind not in LAYER_TYPES or not isinstance(tables[kind], dict | None):
            raise FolderError(
                f"{settings.where}: {kind!r} of rope_parameters is not the table of a type of layer",
                f"its tables are {' and '.join(LAYER_TYPES)}",
            )
    return {kind: {"rope_parameters": tables.get(kind) or {}} for kind in LAYER_TYPES}


def _table(settings: ConfigReader, names: tuple[str, str]) -> dict[str, Any]:
    """All settings of rotary positions; those of `rope_parameters` precede those at the top."""
    tables = [
        table for name in ("rope_parameters", "rope_scaling") if (table := settings.optional(dict, name))
    ]
    if len(tables) > 1 and _plain(tables[0]) != _plain(tables[1]):
        raise FolderError(
            f"{settings.where}: rope_parameters and rope_scaling differ", "remove the one that is wrong"
        )
    top = {
        nested: value
        for nested, name in zip(USUAL_NAMES, names, strict=True)
        if (value := settings.optional(float, name)) is not None
    }
    return {**top, **(tables[0] if tables else {})}


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """A table with one name for each setting."""
    kind = table.get("rope_type", table.get("type", "default"))
    return {**{name: value for name, value in table.items() if name != "type"}, "rope_type": kind}


def _scaling(
    settings: ConfigReader, kind: str, table: Mapping[str, Any], max_positions: int
) -> RotaryScaling | None:
    if kind == "default":
        return None
    for name in REQUIRED[kind]:
        if table.get(name) is None:
            raise FolderError(
                f"{settings.where}: {name!r} of rotary positions is missing",
                "use the config.json of the weights",
            )
    ours = {ours: table[name] for name, ours in NAMES[kind].items() if table.get(name) is not None}
    if kind == "dynamic" or (kind != "linear" and "original_length" not in ours):
        ours["original_length"] = max_positions
    if kind == "yarn":
        for name in ("beta_fast", "beta_slow"):  # 0 is the default, too
            if ours.get(name) == 0:
                del ours[name]
        if "attention_factor" not in ours and (found := _attention_factor(settings, table)) is not None:
            ours["attention_factor"] = found
    try:
        return rotary_scaling_of("rope_scaling", {"kind": kind, **ours})
    except ConfigError as error:
        raise FolderError(f"{settings.where}: {error.message}", error.hint) from error


def _attention_factor(settings: ConfigReader, table: Mapping[str, Any]) -> float | None:
    """The attention factor of `mscale` and `mscale_all_dim`, which count only together."""
    above, below = (_number(settings, table, name, 0.0) for name in MSCALES)
    factor = _number(settings, table, "factor", 1.0)
    if not (above and below):
        return None
    if factor <= 1:
        return 1.0
    return (0.1 * above * math.log(factor) + 1) / (0.1 * below * math.log(factor) + 1)


def _number(settings: ConfigReader, table: Mapping[str, Any], name: str, default: float) -> float:
    value = table.get(name)
    value = default if value is None else value
    if type(value) not in (int, float):
        raise FolderError(f"{settings.where}: {name} = {value!r} is not a number", f"{default} is usual")
    return float(value)


def write_rotary(
    config: TransformerConfig, *, partial: bool = False, names: tuple[str, str] = USUAL_NAMES
) -> dict[str, Any]:
    """The settings of config.json for the rotary positions of a config; arguments as for `read_rotary`."""
    nested = {"rope_theta": config.rotary_base}
    if partial or config.rotary_dim not in (None, config.d_head):
        nested["partial_rotary_factor"] = _part(config.rotary_dim or config.d_head, config.d_head)
    top = {name: nested[usual] for usual, name in zip(USUAL_NAMES, names, strict=True) if usual in nested}
    return {**top, "rope_parameters": {**_written_scaling(config.rotary_scaling), **nested}}


def _part(width: int, d_head: int) -> float:
    """The part of a head that is rotated: `width` of `d_head` features.

    Readers, transformers among them, compute int(part * d_head), which may be less than `width` by rounding.
    """
    part = width / d_head
    return part if int(part * d_head) == width else math.nextafter(part, 1.0)


def _written_scaling(scaling: RotaryScaling | None) -> dict[str, Any]:
    if scaling is None:
        return {"rope_type": "default"}
    ours = dataclasses.asdict(scaling)
    theirs = {name: ours[own] for name, own in NAMES[scaling.kind].items() if ours[own] is not None}
    return {"rope_type": scaling.kind, **theirs}


def write_rotary_by_type(config: WindowConfig, bases: tuple[str, str]) -> dict[str, Any]:
    """The settings of config.json that `read_rotary_by_type` reads."""
    full, local, scaling = (
        config.rotary_base,
        config.local_rotary_base,
        _written_scaling(config.rotary_scaling),
    )
    sliding = (
        {**scaling, "rope_theta": full} if local is None else {"rope_type": "default", "rope_theta": local}
    )
    return {
        bases[0]: full,
        bases[1]: full if local is None else local,
        "rope_parameters": dict(zip(LAYER_TYPES, ({**scaling, "rope_theta": full}, sliding), strict=True)),
    }
