"""The decoding defaults of a model's folder, lowered to what such a model can use.

A folder may come from anybody: a generation.json that asks a model of two layers for a beam of 1,000 and
100,000 tokens only takes time and memory. What the user asks for is not lowered, see `controls`.
"""

import dataclasses
from typing import TypeVar

from regard import console
from regard.decoding.control import controls_of
from regard.decoding.control_fields import Beam
from regard.decoding.controls import Controls
from regard.errors import FolderError, UserError
from regard.recipe import read
from regard.weights.model_folder import LoadedModel

GENERATION_FILE = "generation.json"
MOST_ROWS = 100  # hypotheses of one text
MOST_LENGTH = 20_000  # tokens of one
MOST_TOKENS_OF_ALL_ROWS = 200_000  # both multiplied

Settings = TypeVar("Settings", bound=Controls)


def default_beam(loaded: LoadedModel) -> Beam:
    """The beam in the folder of a model without a decoder.

    Raises:
        FolderError: its size is not a number, or out of range.
    """
    found = {name: value for name, value in loaded.generation.items() if name in controls_of(Beam)}
    try:
        return read(Beam, found)
    except UserError as error:
        raise FolderError(f"{loaded.path / GENERATION_FILE}: {error.message}", error.hint) from None


def decoding_defaults(cls: type[Settings], loaded: LoadedModel) -> Settings:
    """The settings in the folder's generation.json, lowered to the usual limits, with a warning.

    Raises:
        RecipeError, ConfigError: a setting is unknown, or cannot work.
    """
    settings = read(cls, loaded.generation, GENERATION_FILE)
    rows = {name: getattr(settings, name) or 0 for name in names_in(cls, "hypotheses")}
    most = MOST_TOKENS_OF_ALL_ROWS // max(1, min(MOST_ROWS, max(rows.values())))
    limits = dict.fromkeys(rows, MOST_ROWS) | dict.fromkeys(names_in(cls, "tokens"), min(MOST_LENGTH, most))
    changes = {name: limit for name, limit in limits.items() if (getattr(settings, name) or 0) > limit}
    for name, limit in changes.items():
        console.warn(
            f"{loaded.path}: {GENERATION_FILE} asks for {name} = {getattr(settings, name):,},"
            f" which is lowered to {limit:,}; an option of this call can raise it"
        )
    return dataclasses.replace(settings, **changes) if changes else settings


def names_in(cls: type[Controls], unit: str) -> list[str]:
    """The settings that count hypotheses, or tokens."""
    return [name for name, control in controls_of(cls).items() if control.unit == unit]
