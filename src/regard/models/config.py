"""What every config of a model can do, and what all Transformers are made of; checked where written."""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

from regard.errors import ConfigError, did_you_mean
from regard.layers.block import NormPosition
from regard.layers.feedforward import Activation
from regard.layers.norm import Norm
from regard.layers.positions import Layout
from regard.models.registered import ATTENTIONS, POSITIONS

Config = TypeVar("Config", bound="ModelConfig")
INTEGERS = 2**62  # beyond them PyTorch cannot count what a tensor of a row more has


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The settings of a model. Each model has its own class of them, beside it in its file."""

    kind: ClassVar[str]  # what config.json and recipes call the model
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # name -> what differs from the defaults
    generates: ClassVar[bool] = False  # whether it is decoded from, and its folder says how by default
    d_model: int

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls: type[Config], settings: Mapping[str, Any]) -> Config:
        """The config with these settings, as they come out of a file: names and types are checked too."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        hints = typing.get_type_hints(cls)
        for name in settings:
            if name not in fields:
                raise ConfigError(f"no model setting {name!r}", did_you_mean(name, {*fields, "preset"}))
        for name, field in fields.items():
            if field.default is dataclasses.MISSING and name not in settings:
                raise ConfigError(f"the model setting {name!r} is missing", f"give {name}")
        return cls(**{name: _checked(name, value, hints[name]) for name, value in settings.items()})

    @classmethod
    def from_table(cls: type[Config], table: Mapping[str, Any], **sizes: Any) -> Config:
        """The config that a recipe's `[model]` asks for: a `preset`, then what it changes.

        In the place of a preset, `init` has the settings of a trained model to start from. `sizes` are for
        the data to say, not for the recipe: vocabularies, labels.
        """
        settings = {**table.get("init", {}), **sizes}
        if (preset := table.get("preset")) is not None:
            if not isinstance(preset, str) or preset not in cls.presets:
                raise ConfigError(f"no {cls.kind} preset {preset!r}", did_you_mean(str(preset), cls.presets))
            settings |= cls.presets[preset]
        changes = {name: value for name, value in table.items() if name not in ("preset", "init", "kind")}
        for name in sizes.keys() & changes.keys():
            raise ConfigError(
                f"{name} = {changes[name]} is not for a recipe to say", "the data and tokeniser say it"
            )
        return cls.from_dict(settings | changes)

    def refuse_small(self, *names: str) -> None:
        """Settings that count something count at least one; None stands for another's value."""
        for name in names:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value} is too small", f"{name} must be at least 1")

    def refuse_no_share(self, *names: str) -> None:
        """Dropout rates are shares of what is there."""
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)} is no share", f"0 <= {name} < 1")

    def refuse_no_token(self, name: str, *vocab_sizes: int) -> None:
        """An id that is set lies in the vocabularies."""
        if not 0 <= getattr(self, name) < min(vocab_sizes):
            raise ConfigError(
                f"{name} = {getattr(self, name)} is no token",
                f"{name} must be an id of the vocabulary; pad_id is 0 in the tokenisers that regard trains",
            )


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """What all Transformers share; the defaults are the paper's base model (Vaswani et al. 2017, table 3)."""

    d_model: int = 512
    num_heads: int = 8
    num_kv_heads: int | None = None  # None: as many as num_heads
    head_dim: int | None = None  # the width of a head; None: d_model / num_heads
    attention_scale: float | None = None  # of scores; None: 1 / sqrt(the width of a head)
    d_ff: int = 2048
    norm: Norm = "layer"
    norm_eps: float | None = None  # None: 1e-5 where the norm is "layer", 1e-6 where it is "rms"
    norm_position: NormPosition = "post"
    activation: Activation = "relu"
    bias: bool = True  # of linear maps and layer norms; a gated feed-forward layer has none in any case
    qk_norm: bool = False  # a norm of queries and keys, head by head, in self-attention
    attention: str = "softmax"  # self-attention: "softmax", or a registered one
    positions: str = "sinusoidal"  # learned, rotary, alibi, t5, none, or a registered one
    max_positions: int = 1024  # for learned positions only
    position_offset: int = 0  # rows of the learned table before that of the first position
    position_layout: Layout = "interleaved"  # of sinusoidal positions
    position_buckets: int = 32  # of t5's, and the distance from which on all share one
    position_distance: int = 128
    alibi: Literal["directed", "symmetric"] = "directed"  # of encoders: "symmetric" cannot tell order
    rotary_base: float = 10000.0
    dropout: float = 0.1  # of each sub-layer's output and of the sums of embeddings and positions
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0

    def __post_init__(self) -> None:
        self.refuse_small("d_model", "num_heads", "num_kv_heads", "head_dim", "d_ff", "max_positions")
        self.refuse_no_share("dropout", "attention_dropout", "activation_dropout")
        for name, registry in (("positions", POSITIONS), ("attention", ATTENTIONS)):
            value = getattr(self, name)
            if value not in registry:
                raise ConfigError(f"{name} = {value!r} is unknown", registry.hint(value))
        self._check_heads()
        self._check_positions()
        for name in ("attention_scale", "norm_eps"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} = {value} cannot work", f"{name} must be above 0")

    def refuse_changed(self, *names: str) -> None:
        """Settings that this kind of model has no use for stay as they are."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in names:
            if getattr(self, name) != defaults[name]:
                raise ConfigError(f"{name} = {getattr(self, name)} is not for a {self.kind}", "leave it out")

    def _check_positions(self) -> None:
        if self.position_buckets < 4 or self.position_distance <= self.position_buckets // 2:
            raise ConfigError(
                f"position_buckets = {self.position_buckets} up to position_distance = "
                f"{self.position_distance} cannot work",
                "4 buckets or more, and a distance beyond those that have a bucket of their own",
            )
        if self.position_offset < 0:
            raise ConfigError(f"position_offset = {self.position_offset} is no count", "0 is usual")
        if not 1 < self.rotary_base < math.inf:
            raise ConfigError(f"rotary_base = {self.rotary_base} turns nothing", "10000 is usual")

    def _check_heads(self) -> None:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ConfigError(
                f"d_model ({self.d_model}) must be divisible by num_heads ({self.num_heads})",
                f"for instance d_model = {self.num_heads * max(1, self.d_model // self.num_heads)}",
            )
        if self.num_heads % (self.num_kv_heads or self.num_heads):
            raise ConfigError(
                f"num_heads ({self.num_heads}) must be divisible by num_kv_heads ({self.num_kv_heads})",
                "each head of keys and values is shared by equally many heads of queries",
            )
        if self.positions == "rotary" and self.d_head % 2:
            raise ConfigError(
                f"rotary positions turn pairs of features, but d_model / num_heads is {self.d_head}"
                if self.head_dim is None
                else f"rotary positions turn pairs of features, but head_dim is {self.head_dim}",
                "choose d_model and num_heads so that d_model / num_heads is even",
            )

    @property
    def d_head(self) -> int:
        return self.d_model // self.num_heads if self.head_dim is None else self.head_dim


LARGEST = {  # of sizes, by how their names begin or end: some tens of times those of any known model
    "d_": 1_000_000,
    "head_dim": 1_000_000,
    "_size": 100_000_000,
    "_heads": 100_000,
    "_layers": 10_000,
    "max_positions": 100_000_000,
}


def _refuse_large(name: str, value: Any) -> None:
    """Raise a ConfigError for an integer that no model has room for, before anything is made of it."""
    if type(value) is not int:
        return
    if not -INTEGERS < value < INTEGERS:
        bits = value.bit_length()
        raise ConfigError(f"{name} is an integer of {bits:,} bits", "none of a model has more than 62")
    for part, most in LARGEST.items():
        if (name.startswith(part) or name.endswith(part)) and value > most:
            raise ConfigError(f"{name} = {value} is too large", f"{name} must be at most {most:,}")


def _checked(name: str, value: Any, kind: Any) -> Any:
    """`value` where it is what the annotation `kind` of the setting says; an int becomes a float."""
    _refuse_large(name, value)
    kinds = typing.get_args(kind) if typing.get_origin(kind) in UNIONS else (kind,)
    for each in kinds:
        if typing.get_origin(each) is Literal:
            if isinstance(value, str) and value in typing.get_args(each):
                return value
        elif type(value) is each:
            return value
    if float in kinds and type(value) is int:
        return float(value)
    choices = [choice for each in kinds for choice in typing.get_args(each)]
    if choices:
        raise ConfigError(f"{name} = {value!r} is unknown", did_you_mean(str(value), choices))
    wanted = " or ".join("nothing" if each is type(None) else each.__name__ for each in kinds)
    raise ConfigError(f"{name} = {value!r} is no {wanted}", f"{name} must be of type {wanted}")


UNIONS = (typing.Union, types.UnionType)
