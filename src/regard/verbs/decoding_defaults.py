"""What a model's folder asks of decoding by default, no more of it than such a model can use.

Whoever made the folder may be anybody: a generation.json that wants a beam of 1,000 and 100,000 tokens from
a model of two layers only takes time and memory. What a user asks for by name is given, see `controls`.
"""

import dataclasses
from typing import TypeVar

from regard import console
from regard.decoding.controls import MOST_HYPOTHESES, Controls
from regard.errors import FolderError
from regard.recipe import read
from regard.weights.model_folder import LoadedModel

FILE = "generation.json"
MOST_ROWS = 100  # hypotheses of one text
MOST_LENGTH = 20_000  # tokens of one
MOST_TOKENS = 200_000  # both multiplied
ROWS = ("beam_size", "n_best", "mbr_samples")
LENGTHS = ("max_length", "max_new_tokens", "min_length", "min_new_tokens")

Settings = TypeVar("Settings", bound=Controls)


def beam_of(loaded: LoadedModel) -> int:
    """The beam that the folder of a model without a decoder asks for.

    Raises:
        FolderError: it is none.
    """
    size = loaded.generation.get("beam_size", 1)
    if type(size) is not int or not 1 <= size <= MOST_HYPOTHESES:
        raise FolderError(
            f"{loaded.path / FILE}: beam_size is no number from 1 to {MOST_HYPOTHESES}", "1 is greedy"
        )
    return size


def decoding_defaults(cls: type[Settings], loaded: LoadedModel) -> Settings:
    """The settings in the folder's generation.json, lowered to what is usual at the most; that is told.

    Raises:
        RecipeError, ConfigError: a setting is unknown, or cannot work.
    """
    settings = read(cls, loaded.generation, FILE)
    rows = {name: getattr(settings, name, None) or 0 for name in ROWS}
    most = MOST_TOKENS // max(1, min(MOST_ROWS, max(rows.values())))
    limits = dict.fromkeys(ROWS, MOST_ROWS) | dict.fromkeys(LENGTHS, min(MOST_LENGTH, most))
    changes = {name: limit for name, limit in limits.items() if (getattr(settings, name, None) or 0) > limit}
    for name, limit in changes.items():
        console.warn(
            f"{loaded.path}: {FILE} asks for {name} = {getattr(settings, name):,}; {limit:,} are taken, "
            "which an option of this call can change"
        )
    return dataclasses.replace(settings, **changes) if changes else settings
