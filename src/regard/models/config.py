"""The base classes of model configs: reading, presets and checks; the settings of all Transformers."""

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from regard.errors import ConfigError, did_you_mean
from regard.layers.block import NormPosition
from regard.layers.feedforward import GATES
from regard.layers.positions import Layout
from regard.layers.rotary_scaling import RotaryScaling
from regard.models.part_options import refuse_unknown_options
from regard.models.registered import PARTS, POSITIONS
from regard.models.setting_types import of_type, plain_kinds, type_name

Config = TypeVar("Config", bound="ModelConfig")
AttentionBias = Literal["all", "inputs", "none"]
OF_POSITIONS = {  # settings that are used with one kind of positions only
    "max_positions": "learned",
    "position_layout": "sinusoidal",
    "position_buckets": "t5",
    "position_distance": "t5",
    "alibi": "alibi",
    "rotary_base": "rotary",
}


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The settings of a model. Each model has its own config class in its file."""

    kind: ClassVar[str]  # the model's name in config.json and recipes
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # name -> settings that differ from the defaults
    generates: ClassVar[bool] = False  # True if the model is decoded, so that its folder has generation.json
    d_model: int

    def to_dict(self) -> dict[str, Any]:
        """The settings as they are written to config.json."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls: type[Config], settings: Mapping[str, Any]) -> Config:
        """The config with these settings from a file; names and types are checked."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        hints = typing.get_type_hints(cls)
        for name in settings:
            if name not in fields:
                raise ConfigError(
                    f"there is no model setting {name!r}", did_you_mean(name, {*fields, "preset"})
                )
        for name, field in fields.items():
            if field.default is dataclasses.MISSING and name not in settings:
                raise ConfigError(f"the model setting {name!r} is missing", f"give {name}")
        return cls(**{name: of_type(name, value, hints[name]) for name, value in settings.items()})

    @classmethod
    def from_table(cls: type[Config], table: Mapping[str, Any], **sizes: Any) -> Config:
        """The config of a recipe's `[model]` table: a `preset`, then the settings that the table changes.

        Instead of a preset, `init` has the settings of a trained model to start from. `sizes` are settings
        that follow from the data and that a recipe cannot set, such as vocabulary sizes.
        """
        settings = {**table.get("init", {}), **sizes}
        if (preset := table.get("preset")) is not None:
            if not isinstance(preset, str) or preset not in cls.presets:
                raise ConfigError(
                    f"there is no {cls.kind} preset {preset!r}", did_you_mean(str(preset), cls.presets)
                )
            settings |= cls.presets[preset]
        changes = {name: value for name, value in table.items() if name not in ("preset", "init", "kind")}
        for name in sizes.keys() & changes.keys():
            raise ConfigError(
                f"{name} = {changes[name]} cannot be set in a recipe", "it follows from data and tokeniser"
            )
        return cls.from_dict(settings | changes)

    @classmethod
    def refuse_unused(cls, table: Mapping[str, Any]) -> None:
        """Raise a ConfigError for a setting of a new recipe's `[model]` that has no effect."""

    def refuse_other_types(self) -> None:
        """Raise a ConfigError for a setting of another type than its annotation, if that is a plain one."""
        for name, kinds in plain_kinds(type(self)).items():
            value = getattr(self, name)
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
            if not fits and not (is_number and float in kinds):
                wanted = " or ".join(type_name(each) for each in kinds if each is not np.integer)
                raise ConfigError(
                    f"{name} = {value!r} has the wrong type", f"{name} must be of type {wanted}"
                )

    def require_positive(self, *names: str) -> None:
        """Raise a ConfigError if one of these settings is below 1; None is allowed."""
        self.refuse_other_types()
        for name in names:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value} is too small", f"{name} must be at least 1")

    def require_fraction(self, *names: str) -> None:
        """Raise a ConfigError if one of these settings, such as a dropout rate, is not in [0, 1)."""
        self.refuse_other_types()
        for name in names:
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)} is out of range", f"0 <= {name} < 1")

    def require_token_id(self, name: str, *vocab_sizes: int) -> None:
        """Raise a ConfigError if this setting is not an id of all vocabularies of these sizes."""
        if not 0 <= getattr(self, name) < min(vocab_sizes):
            raise ConfigError(
                f"{name} = {getattr(self, name)} is not a token id",
                f"{name} must be an id of the vocabulary; tokenisers that regard trains have pad_id = 0",
            )


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(ModelConfig):
    """The settings of all Transformers; defaults: the base model (Vaswani et al. 2017, table 3)."""

    d_model: int = 512  # width of the states between layers
    num_heads: int = 8  # heads of each attention
    num_kv_heads: int | None = None  # None: num_heads
    head_dim: int | None = None  # None: d_model / num_heads
    attention_scale: float | None = None  # factor of attention scores; None: 1 / sqrt(d_head)
    d_ff: int = 2048  # width within a feed-forward network
    norm: str = "layer"  # layer, rms, or a registered one
    norm_eps: float | None = None  # None: 1e-5 if the norm is "layer", 1e-6 if it is "rms"
    norm_position: NormPosition = "post"  # where the norms are: after a sub-layer, before it, or around it
    # within feed-forward networks: relu, gelu, gelu_tanh, quick_gelu, silu, the gated swiglu, geglu and
    # geglu_tanh, or a registered network
    activation: str = "relu"
    bias: bool = True  # of linear layers and layer norms
    attention_bias: AttentionBias | None = None  # "inputs": of queries, keys and values only; None: as bias
    feed_forward_bias: bool | None = None  # None: as bias; gated feed-forward layers then have none
    qk_norm: bool | Literal["all_heads"] = False  # in self-attention: of each head, or of all at once
    attention: str = "softmax"  # self-attention: "softmax", or a registered one
    positions: str = "sinusoidal"  # learned, rotary, alibi, t5, none, or a registered one
    max_positions: int = 1024  # for learned positions only
    position_offset: int = 0  # before the first position, of learned ones and of the layout "fairseq"
    position_layout: Layout = "interleaved"  # of sinusoidal positions
    position_buckets: int = 32  # of t5 positions
    position_distance: int = 128  # of t5 positions: larger distances share the last bucket
    alibi: Literal["directed", "symmetric"] = "directed"  # of encoders: "symmetric" ignores the direction
    rotary_base: float = 10000.0  # of rotary positions: the base of their wavelengths
    rotary_dim: int | None = None  # features of a head that are rotated; None: all
    rotary_scaling: RotaryScaling | None = None  # other angles, for longer texts
    dropout: float = 0.1  # of each sub-layer's output, and of the sum of embeddings and positions
    attention_dropout: float = 0.0  # of attention weights
    activation_dropout: float = 0.0  # within feed-forward networks, after the activation
    # arguments of registered parts by setting: positions, attention, norm, activation
    options: dict[str, Any] | None = dataclasses.field(default=None, hash=False)

    def __post_init__(self) -> None:
        self.require_positive("d_model", "num_heads", "num_kv_heads", "head_dim", "d_ff", "max_positions")
        self.require_fraction("dropout", "attention_dropout", "activation_dropout")
        for name, registry in PARTS.items():
            value = getattr(self, name)
            if value not in registry:
                raise ConfigError(f"{name} = {value!r} is unknown", registry.hint(value))
        refuse_unknown_options(self)
        self._check_heads()
        self._check_positions()
        for name in ("attention_scale", "norm_eps"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ConfigError(f"{name} = {value} is out of range", f"{name} must be above 0")

    @classmethod
    def refuse_unused(cls, table: Mapping[str, Any]) -> None:
        """Raise a ConfigError for a changed setting of other positions; registered ones may read all."""
        settings = {**cls.presets.get(str(table.get("preset")), {}), **table}
        positions = settings.get("positions", cls.positions)
        if "init" in table or positions not in POSITIONS.own:
            return
        for name in OF_POSITIONS.keys() & table.keys():
            wanted = OF_POSITIONS[name]
            if wanted != positions and table[name] != getattr(cls, name):
                raise ConfigError(
                    f"{name} = {table[name]!r} has no effect: it is a setting of {wanted} positions, but"
                    f" positions = {positions!r}",
                    f"leave {name} out, or use positions = {wanted!r}",
                )
        layout = settings.get("position_layout", cls.position_layout)
        has_offset = positions == "learned" or (positions == "sinusoidal" and layout == "fairseq")
        if table.get("position_offset") and not has_offset:
            raise ConfigError(
                f"position_offset = {table['position_offset']} has no effect: it is a setting of learned"
                " positions, and of sinusoidal ones in the layout 'fairseq'",
                "leave position_offset out",
            )

    def require_default(self, *names: str) -> None:
        """Raise a ConfigError if one of these settings, which this kind of model does not use, is changed."""
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for name in names:
            if getattr(self, name) != defaults[name]:
                raise ConfigError(
                    f"a {self.kind} model has no setting {name} = {getattr(self, name)}", "leave it out"
                )

    def _check_positions(self) -> None:
        if self.position_buckets < 4 or self.position_distance <= self.position_buckets // 2:
            raise ConfigError(
                f"position_buckets = {self.position_buckets} up to position_distance = "
                f"{self.position_distance} is not possible",
                "use 4 buckets or more, and a distance greater than half the number of buckets",
            )
        if self.position_offset < 0:
            raise ConfigError(f"position_offset = {self.position_offset} is below 0", "0 is usual")
        self._check_rotary()

    def _check_rotary(self) -> None:
        if not 1 < self.rotary_base < math.inf:
            raise ConfigError(f"rotary_base = {self.rotary_base} is not above 1", "10000 is usual")
        for name in ("rotary_dim", "rotary_scaling"):
            if (
                getattr(self, name) is not None
                and self.positions in POSITIONS.own
                and self.positions != "rotary"
            ):
                raise ConfigError(
                    f"{name} is a setting of rotary positions, but positions = {self.positions!r}",
                    f"leave {name} out, or use positions = 'rotary'",
                )
        if self.rotary_dim is not None and (self.rotary_dim % 2 or not 0 < self.rotary_dim <= self.d_head):
            raise ConfigError(
                f"rotary_dim = {self.rotary_dim} of {self.d_head} features is not possible",
                f"give an even number from 2 to {self.d_head}",
            )

    def _check_heads(self) -> None:
        if self.head_dim is None and self.d_model % self.num_heads:
            raise ConfigError(
                f"d_model ({self.d_model}) must be divisible by num_heads ({self.num_heads})",
                f"for instance d_model = {self.num_heads * max(1, self.d_model // self.num_heads)}",
            )
        if self.num_heads % (self.num_kv_heads or self.num_heads):
            raise ConfigError(
                f"num_heads ({self.num_heads}) must be divisible by num_kv_heads ({self.num_kv_heads})",
                "each key-value head is shared by the same number of query heads",
            )
        if self.positions == "rotary" and self.rotary_dim is None and self.d_head % 2:
            raise ConfigError(
                f"rotary positions rotate pairs of features, but d_model / num_heads is {self.d_head}"
                if self.head_dim is None
                else f"rotary positions rotate pairs of features, but head_dim is {self.head_dim}",
                "choose d_model and num_heads so that d_model / num_heads is even",
            )

    @property
    def attention_biases(self) -> AttentionBias:
        """Which linear layers of attentions have biases."""
        return self.attention_bias or ("all" if self.bias else "none")

    @property
    def has_feed_forward_bias(self) -> bool:
        """True if the linear layers of feed-forward networks have biases."""
        own = self.feed_forward_bias
        return self.bias and self.activation not in GATES if own is None else own

    @property
    def position_limit(self) -> int | None:
        """The number of positions that the model has; None without a limit."""
        if self.positions == "learned":
            return self.max_positions
        return None if self.rotary_scaling is None else self.rotary_scaling.limit

    @property
    def d_head(self) -> int:
        """The width of an attention head."""
        return self.d_model // self.num_heads if self.head_dim is None else self.head_dim
