"""The request of a look: a text, what is forced of the answer, and what is switched off."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from regard.decoding.control_fields import BeamSize
from regard.errors import DataError
from regard.inspection.names_given import refuse_other_names, refuse_unnamed_heads
from regard.inspection.numbers_given import refuse_other_indices, refuse_other_tokens
from regard.recipe import read

MAX_CHARACTERS = 20_000  # of a text, checked before it is tokenised
MAX_TOKENS = 512  # of each sequence: an attention map of more would have more cells than a screen has pixels
MAX_BEAM = 32


@dataclass(frozen=True, kw_only=True)
class Changes:
    """The parts that a run switches off: heads by attention name, blocks or sub-layers, input tokens.

    Numbers may be NumPy's or PyTorch's; they are kept as Python's, in tuples.

    Raises:
        ConfigError: heads without the name of their attention, or layers that are not a sequence.
        DataError: heads or tokens that are not whole numbers, or one that is out of range.
    """

    heads: dict[str, Any] = field(default_factory=dict)
    layers: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        refuse_unnamed_heads(self.heads, "decoder.blocks.0.cross_attention")
        layers = refuse_other_names("layers", self.layers, "decoder.blocks.0")
        plain = {
            "heads": {str(name): _indices(str(name), "heads", each) for name, each in self.heads.items()},
            "layers": tuple(map(str, layers)),
            "tokens": _indices("the text", "tokens", self.tokens),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        self.refuse_tokens_beyond(MAX_TOKENS)

    def __bool__(self) -> bool:
        return bool(any(self.heads.values()) or self.layers or self.tokens)

    def refuse_tokens_beyond(self, length: int) -> None:
        """Raise a DataError if a token to switch off is beyond a sequence of this length."""
        refuse_other_tokens(self.tokens, length, DataError)

    def to_dict(self) -> dict[str, Any]:
        heads = {name: list(each) for name, each in self.heads.items()}
        return {"heads": heads, "layers": list(self.layers), "tokens": list(self.tokens)}


def _indices(owner: str, what: str, given: object) -> tuple[int, ...]:
    """Numbers of heads or tokens as Python's; a DataError if they are not a sequence of them."""
    return refuse_other_indices(owner, what, given, None, needs_one=False, error=DataError)


@dataclass(frozen=True, kw_only=True)
class LookRequest(BeamSize):
    """One text to look at.

    `target` forces the whole answer and `prefix` its beginning. `prefix_ids` forces the beginning of all
    predicted ids, which for a decoder-only model include the text's own. No beam size means the model's
    own setting, or greedy search in a decoder-only model. `max_new_tokens` limits the continuation of a
    decoder-only model.

    Raises:
        DataError: two values contradict each other, or one is out of range.
    """

    text: str
    target: str | None = None
    prefix: str | None = None
    prefix_ids: tuple[int, ...] | None = None
    max_new_tokens: int | None = None
    changes: Changes = field(default_factory=Changes)

    def __post_init__(self) -> None:
        forced_options = [
            name for name in ("target", "prefix", "prefix_ids") if getattr(self, name) is not None
        ]
        if len(forced_options) > 1:
            raise DataError(
                f"both {forced_options[0]} and {forced_options[1]} are given", "leave one of them out"
            )
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
        """The values that are set, without changes: `from_json` makes the request for the whole model."""
        found = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "changes"}
        return {name: value for name, value in found.items() if value is not None}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> "LookRequest":
        """The request that the page sends; null values are ignored.

        Raises:
            RecipeError: an unknown key, or a value of the wrong type.
        """
        return read(cls, {name: value for name, value in table.items() if value is not None})


def refuse_answers(request: LookRequest) -> None:
    """Raise a DataError if the request has settings of generation, for a model that does not generate."""
    for name in (each.name for each in fields(request) if each.name not in ("text", "changes")):
        if getattr(request, name) is not None:
            raise DataError(
                f"{name} is for a model that generates text, but this one does not", f"leave {name} out"
            )


def refuse_many_tokens(count: int, what: str, maximum: int | None) -> None:
    """Raise a DataError if there are more tokens than a look or the model's positions allow."""
    limit = min(MAX_TOKENS, MAX_TOKENS if maximum is None else maximum)
    if count > limit:
        raise DataError(f"{what} has {count} tokens, more than {limit}", f"shorten it to {limit} tokens")


def refuse_other_ids(prefix_ids: Sequence[int], size: int) -> None:
    """Raise a DataError for an id outside a vocabulary of this size."""
    if any(not 0 <= number < size for number in prefix_ids):
        raise DataError("prefix_ids has an id outside the vocabulary", f"ids are from 0 to {size - 1}")
