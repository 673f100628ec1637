"""The parts of a task's data (training, validation, test), and the validation split of a recipe."""

from dataclasses import dataclass
from typing import Any

from regard.errors import RecipeError

# key in a recipe -> name in messages
PART_NAMES = {"train": "training", "valid": "validation", "test": "test"}
DRY_RUN_EXAMPLES = 32  # validation and test examples of a dry run


@dataclass(frozen=True, kw_only=True)
class ValidationSplit:
    """`valid_share`: the share of the training examples to validate on if `[data]` has no `valid`."""

    valid_share: float = 0.1

    def __post_init__(self) -> None:
        if not 0 < self.valid_share < 1:
            raise RecipeError(
                f"data.valid_share must be between 0 and 1, not {self.valid_share}", "0.1 is a tenth"
            )


@dataclass(frozen=True, kw_only=True)
class OptionalValidation(ValidationSplit):
    """`train_on_valid`: train on the validation examples too; nothing is validated, and the last weights are
    kept.
    """

    train_on_valid: bool = False


def settings_by_part(data: Any) -> dict[str, Any]:
    """The settings of the parts that a recipe's `[data]` has, by the keys of PART_NAMES."""
    return {part: settings for part in PART_NAMES if (settings := getattr(data, part)) is not None}


def examples_kept(part: str, limit: int | None) -> int | None:
    """How many examples of a part a dry run of `limit` training examples keeps; None without a limit."""
    return None if limit is None else limit if part == "train" else DRY_RUN_EXAMPLES
