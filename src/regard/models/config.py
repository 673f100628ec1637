"""ModelConfig: what a model is made of, checked where it is written; and the named presets."""

import dataclasses
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from regard.errors import ConfigError, did_you_mean
from regard.layers.block import NormPosition
from regard.layers.feedforward import Activation
from regard.layers.norm import Norm

Kind = Literal["encoder_decoder"]
Positions = Literal["sinusoidal", "learned", "rotary", "alibi", "t5"]
Tied = Literal["all", "target", "none"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The settings of a model; the defaults are the paper's base model (Vaswani et al. 2017, table 3)."""

    kind: Kind = "encoder_decoder"
    src_vocab_size: int
    tgt_vocab_size: int
    d_model: int = 512
    num_heads: int = 8
    num_kv_heads: int | None = None  # None: as many as num_heads
    d_ff: int = 2048
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    norm: Norm = "layer"
    norm_position: NormPosition = "post"
    activation: Activation = "relu"
    positions: Positions = "sinusoidal"
    max_positions: int = 1024  # for learned positions only
    dropout: float = 0.1  # of each sub-layer's output and of the sums of embeddings and positions
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    tied: Tied = "all"  # source embedding, target embedding, output weight: all one, the last two, none
    pad_id: int = 0

    def __post_init__(self) -> None:
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} = {value} is too small", f"{name} must be at least 1")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)} is no share", f"0 <= {name} < 1")
        self._check_heads()
        if self.tied == "all" and self.src_vocab_size != self.tgt_vocab_size:
            raise ConfigError(
                f"tied = 'all' needs one vocabulary, but the source has {self.src_vocab_size} tokens"
                f" and the target {self.tgt_vocab_size}",
                "use a joint tokeniser, or tied = 'target'",
            )
        if not 0 <= self.pad_id < min(self.src_vocab_size, self.tgt_vocab_size):
            raise ConfigError(
                f"pad_id = {self.pad_id} is no token",
                "pad_id must lie in both vocabularies; 0 in the tokenisers that regard trains",
            )

    def _check_heads(self) -> None:
        if self.d_model % self.num_heads:
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
                f"rotary positions turn pairs of features, but d_model / num_heads is {self.d_head}",
                "choose d_model and num_heads so that d_model / num_heads is even",
            )

    @property
    def d_head(self) -> int:
        return self.d_model // self.num_heads

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> "ModelConfig":
        """The config with these settings, as they come out of a file: names and types are checked too."""
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for name in settings:
            if name not in fields:
                raise ConfigError(f"no model setting {name!r}", did_you_mean(name, {*fields, "preset"}))
        for name, field in fields.items():
            if field.default is dataclasses.MISSING and name not in settings:
                raise ConfigError(f"the model setting {name!r} is missing", f"give {name}")
        return cls(**{name: _checked(name, value, fields[name].type) for name, value in settings.items()})


_COUNTS = [
    "src_vocab_size",
    "tgt_vocab_size",
    "d_model",
    "num_heads",
    "num_kv_heads",
    "d_ff",
    "num_encoder_layers",
    "num_decoder_layers",
    "max_positions",
]

PRESETS: dict[str, dict[str, Any]] = {
    # Vaswani et al. 2017, table 3
    "base": {},
    "big": {"d_model": 1024, "num_heads": 16, "d_ff": 4096, "dropout": 0.3},
    # fairseq's transformer_iwslt_de_en: some 160,000 pairs
    "medium": {"num_heads": 4, "d_ff": 1024, "dropout": 0.3},
    # what a laptop trains in an hour
    "small": {
        "d_model": 256,
        "num_heads": 4,
        "d_ff": 1024,
        "num_encoder_layers": 3,
        "num_decoder_layers": 3,
    },
    # Wu et al. 2021, for Multi30k: some 30,000 pairs
    "tiny": {
        "d_model": 128,
        "num_heads": 4,
        "d_ff": 256,
        "num_encoder_layers": 4,
        "num_decoder_layers": 4,
        "dropout": 0.3,
    },
}


def config_from(table: Mapping[str, Any], src_vocab_size: int, tgt_vocab_size: int) -> ModelConfig:
    """The config that a recipe's table asks for: its `preset` (else base), then what it changes."""
    preset = table.get("preset", "base")
    if not isinstance(preset, str) or preset not in PRESETS:
        raise ConfigError(f"no preset {preset!r}", did_you_mean(str(preset), PRESETS))
    changes = {name: value for name, value in table.items() if name != "preset"}
    sizes = {"src_vocab_size": src_vocab_size, "tgt_vocab_size": tgt_vocab_size}
    for name in sizes.keys() & changes.keys():
        raise ConfigError(f"{name} = {changes[name]} is not for a recipe to say", "the tokeniser says it")
    return ModelConfig.from_dict({**sizes, **PRESETS[preset], **changes})


def _checked(name: str, value: Any, kind: Any) -> Any:
    """`value` where it is what the annotation `kind` of the setting says; an int becomes a float."""
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if value not in choices:
            raise ConfigError(f"{name} = {value!r} is unknown", did_you_mean(str(value), choices))
        return value
    if kind is float and type(value) is int:
        return float(value)
    kinds = typing.get_args(kind) or (kind,)
    if type(value) not in kinds:
        wanted = " or ".join("nothing" if each is type(None) else each.__name__ for each in kinds)
        raise ConfigError(f"{name} = {value!r} is no {wanted}", f"{name} must be of type {wanted}")
    return value
