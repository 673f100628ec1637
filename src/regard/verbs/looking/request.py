"""What is asked of a look: a text, what of the answer is forced, what is switched off."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from regard.decoding.controls import BeamSize
from regard.errors import DataError
from regard.recipe import read

MAX_CHARACTERS = 20_000  # of a text, before anyone cuts it into tokens
MAX_TOKENS = 512  # of either side: a picture of more has more cells than a screen has dots
MAX_BEAM = 32


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What is switched off in a run: heads of attentions by their names, blocks, tokens of the source."""

    heads: dict[str, Any] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, heads in self.heads.items():
            if not isinstance(heads, list) or any(type(head) is not int for head in heads):
                raise DataError(
                    f"changes.heads of {name!r} is no list of numbers", 'heads = {"NAME": [0, 3]}'
                )
        self.refuse_tokens_beyond(MAX_TOKENS)

    def __bool__(self) -> bool:
        return bool(any(self.heads.values()) or self.layers or self.tokens)

    def refuse_tokens_beyond(self, length: int) -> None:
        """Raise a DataError where a token is to be off that a sequence of this length has not."""
        if beyond := [position for position in self.tokens if not 0 <= position < length]:
            raise DataError(f"no token stands at {beyond[0]}", f"positions go from 0 to {length - 1}")

    def to_dict(self) -> dict[str, Any]:
        return {"heads": self.heads, "layers": list(self.layers), "tokens": list(self.tokens)}


@dataclass(frozen=True, kw_only=True)
class Request(BeamSize):
    """One text to look at.

    `target` forces the whole answer, `prefix` its beginning, and `prefix_ids` the beginning of all that is
    written, which of a text that goes on is the text itself. Without a beam size the model's own is taken;
    a text goes on by the likeliest tokens. `max_new_tokens`: of a text that goes on.

    Raises:
        DataError: what is asked for contradicts itself, or is too much.
    """

    text: str
    target: str | None = None
    prefix: str | None = None
    prefix_ids: tuple[int, ...] | None = None
    max_new_tokens: int | None = None
    changes: Changes = field(default_factory=Changes)

    def __post_init__(self) -> None:
        given = [name for name in ("target", "prefix", "prefix_ids") if getattr(self, name) is not None]
        if len(given) > 1:
            raise DataError(f"both {given[0]} and {given[1]} are given", "leave one of them out")
        for name in ("text", "target", "prefix"):
            text = getattr(self, name) or ""
            if len(text) > MAX_CHARACTERS:
                raise DataError(
                    f"the {name} has {len(text):,} characters, more than {MAX_CHARACTERS:,}", "shorten it"
                )
        [beam] = fields(BeamSize)
        for name, most in ((beam.name, MAX_BEAM), ("max_new_tokens", MAX_TOKENS)):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise DataError(f"{name} = {value} is not from 1 to {most}", f"{name} = 1")

    def to_dict(self) -> dict[str, Any]:
        """What was given, all switched on: `from_json` of it asks the same of the whole model."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "changes"}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> "Request":
        """A request as the page sends it; what is null is not given.

        Raises:
            RecipeError: an unknown key, or a value of the wrong type.
        """
        return read(cls, {name: value for name, value in table.items() if value is not None})


def refuse_answers(request: Request) -> None:
    """Raise a DataError where something of an answer is asked for that a model which reads alone has not."""
    for name in (each.name for each in fields(request) if each.name not in ("text", "changes")):
        if getattr(request, name) is not None:
            raise DataError(f"{name} is for a model that writes, but this one reads", f"leave {name} out")


def refuse_long(count: int, what: str, most: int | None) -> None:
    """Raise a DataError where tokens are more than can be looked at, or than the model has learned."""
    limit = min(MAX_TOKENS, MAX_TOKENS if most is None else most)
    if count > limit:
        raise DataError(f"{what} has {count} tokens, more than {limit}", f"shorten it to {limit} tokens")
