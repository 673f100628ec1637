"""The ids of special tokens, as searches and rules need them."""

from dataclasses import dataclass
from numbers import Integral

from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class SpecialTokenIds:
    """The ids of a model's special tokens: padding, begin, end, and what else ends or begins an output."""

    pad_id: int
    bos_id: int
    eos_id: int
    ends: tuple[int, ...] = ()  # other tokens that end an output
    first: int | None = None  # a token that is forced after `bos_id`, such as that of a language


def refuse_other_id(name: str, value: object) -> None:
    """Raise a ConfigError if the setting `name`, such as bos_id, is not the id of a token."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 0:
        raise ConfigError(
            f"{name} = {value!r} is not the id of a token",
            "if the model has no such token, give the id of the one that it begins or ends an output with",
        )
