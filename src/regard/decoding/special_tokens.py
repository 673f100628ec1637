"""The ids of special tokens, as searches and rules need them."""

from dataclasses import dataclass

from regard.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class SpecialTokenIds:
    """The ids of the special tokens."""

    pad_id: int
    bos_id: int
    eos_id: int
    ends: tuple[int, ...] = ()  # other tokens that end a text
    first: int | None = None  # the token that every output begins with


def refuse_other_id(name: str, value: object) -> None:
    """Raise a ConfigError if the setting `name`, such as bos_id, is not the id of a token."""
    if not isinstance(value, int) or value < 0:
        raise ConfigError(
            f"{name} = {value!r} is not the id of a token",
            "a model without such a token begins and ends with another one, often the same for both",
        )
