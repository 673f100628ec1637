"""Options of registered parts: `[model.options.norm] start = 0.5` is an argument of the norm."""

from collections.abc import Mapping
from typing import Any

from regard.errors import ConfigError, did_you_mean
from regard.models.registered import ATTENTION_ARGUMENTS, PARTS, PositionalEncoding
from regard.registry import refuse_other_options, refuse_unwritable_options

# what each part is made with: by position, and by name
ARGUMENTS = {
    "positions": (("config", "bidirectional"), ()),
    "attention": (("d_model", "num_heads"), ATTENTION_ARGUMENTS),
    "norm": (("config", "width"), ()),
    "activation": (("config",), ()),
}


def refuse_unknown_options(config: Any) -> None:
    """Raise a ConfigError if a config has options that none of its parts takes.

    An option is a number, a text, true or false, or a list of these.
    """
    for setting, options in (config.options or {}).items():
        if setting not in PARTS:
            raise ConfigError(f"options.{setting} is of no part", did_you_mean(setting, PARTS))
        name = getattr(config, setting)
        if name in PARTS[setting].own:
            raise ConfigError(
                f"options.{setting} has no effect with {setting} = {name!r}",
                "leave it out: options are arguments of registered parts",
            )
        if not isinstance(options, Mapping):
            raise ConfigError(f"options.{setting} = {options!r} is no table", "give each option by its name")
        refuse_unwritable_options(options, f"options.{setting}", ConfigError)
        _refuse_other_options(setting, name, options)


def _refuse_other_options(setting: str, name: str, options: Mapping[str, Any]) -> None:
    """Raise a ConfigError if a registered part does not take these options; one written in C may."""
    made: Any = PARTS[setting][name]
    make = made.make if isinstance(made, PositionalEncoding) else made
    positional, by_name = ARGUMENTS[setting]
    what = f"the {PARTS[setting].what} {name!r}"
    if taken := sorted({*positional, *by_name} & options.keys()):
        raise ConfigError(
            f"options.{setting}.{taken[0]} cannot be set: regard gives it to {what}", "leave it out"
        )
    refuse_other_options(
        make,
        what,
        positional,
        options,
        setting=f"options.{setting}",
        by_name=by_name,
        kind=ConfigError,
    )
