"""The base class of Hugging Face model families: converts config, tensor names and special tokens."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from regard.errors import ConfigError, FolderError, did_you_mean
from regard.models.config import ModelConfig, TransformerConfig
from regard.models.windows import WindowConfig
from regard.weights.families.ignored_settings import HARMLESS
from regard.weights.names import Entry

Setting = TypeVar("Setting")
INTEGERS = 2**63
OTHER_HEADS = (  # suffixes of the classes of transformers whose heads generate nothing
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "DoubleHeadsModel",
)
ACTIVATION_NAMES = {  # of transformers -> of regard
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}


def refuse_large_integer(value: object, name: str) -> None:
    """Raises a FolderError for an integer beyond 64 bits."""
    if type(value) is int and not -INTEGERS <= value < INTEGERS:
        raise FolderError(
            f"{name} is an integer of {value.bit_length():,} bits", "use the config.json of the weights"
        )


class ConfigReader:
    """Reads a Hugging Face `config.json` setting by setting, with types; unread settings are refused."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self.table, self.where = table, where
        self._read: set[str] = set(HARMLESS)

    def take(self, kind: type[Setting], *names: str, default: Setting | None = None) -> Setting:
        """The value of the first of `names` that is set, else `default`; FolderError without either."""
        found = self.optional(kind, *names)
        if found is None and default is None:
            raise FolderError(f"{self.where}: {names[0]!r} is missing", "use the config.json of the weights")
        return default if found is None else found  # type: ignore[return-value]

    def optional(self, kind: type[Setting], *names: str) -> Setting | None:
        """The value of the first of `names` that is set; None if none is."""
        self._read.update(names)
        value = next((self.table[name] for name in names if self.table.get(name) is not None), None)
        if value is None:
            return None
        name = next(name for name in names if self.table.get(name) is not None)
        refuse_large_integer(value, f"{self.where}: {name}")
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise FolderError(
                f"{self.where}: {name} = {value!r} is not of type {kind.__name__}",
                "use the config.json of the weights",
            )
        return value

    def unless_absent(self, kind: type[Setting], name: str, absent: Setting) -> Setting | None:
        """The value of a setting, None if it is null; `absent` if config.json does not have it."""
        return self.optional(kind, name) if name in self.table else absent

    def choice(self, known: Mapping[str, Setting], *names: str, default: str | None = None) -> Setting:
        """The value in `known` for the word of a setting."""
        word = self.take(str, *names, default=default)
        if word not in known:
            raise FolderError(
                f"{self.where}: {names[0]} = {word!r} is not supported", did_you_mean(word, known)
            )
        return known[word]

    def must_be(self, name: str, *values: object) -> None:
        """Refuses a setting that has another value than `values` or null."""
        self._read.add(name)
        if name in self.table and self.table[name] not in (*values, None):
            raise FolderError(
                f"{self.where}: {name} = {self.table[name]!r} is not supported",
                f"only {values[0]!r} is" if values else "only null is",
            )

    def unused(self, *names: str) -> None:
        """Accepts settings of this family that do not change the model's output."""
        self._read.update(names)

    def token(self, name: str, vocab_size: int) -> int | None:
        """The id of a special token, the first of several; None if it is not set."""
        value = self.table.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None or value == -1:
            return None
        if type(value) is not int or not 0 <= value < vocab_size:
            raise FolderError(
                f"{self.where}: {name} = {value!r} is not a token id", "give 0 to vocab_size - 1"
            )
        return value

    def token_or(self, name: str, vocab_size: int, absent: int | None) -> int | None:
        """The id of a special token; `absent` if config.json does not have the setting."""
        return self.token(name, vocab_size) if name in self.table else absent

    def architecture(self) -> str:
        """The class name in `architectures`; empty if it is not set."""
        match self.table.get("architectures"):
            case [str(name), *_]:
                return name
            case None | []:
                return ""
        raise FolderError(
            f"{self.where}: architectures is not a list of names", "use the config.json of the weights"
        )

    def refuse_other_heads(self, *usable: str, others: Collection[str] = OTHER_HEADS) -> None:
        """Refuses a class of transformers that ends in one of `others`, in favour of one of `usable`."""
        name = self.architecture()
        if name.endswith(tuple(others)):
            raise FolderError(
                f"{self.where}: the head of class {name} is not supported", f"use {' or '.join(usable)}"
            )

    def labels(self) -> tuple[str, ...]:
        """The names of the classes, from `id2label`."""
        names = self.table.get("id2label")
        count = self.table.get("num_labels")
        if names is None:
            count = 2 if count is None else count
            if type(count) is not int or not 0 < count < 10**6:
                raise FolderError(f"{self.where}: num_labels = {count!r} is not a count", "give id2label")
            return tuple(f"LABEL_{number}" for number in range(count))
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise FolderError(
                f"{self.where}: id2label is not an object of names", "its keys are 0 to classes - 1"
            )
        wanted = [str(number) for number in range(len(names))]
        if set(map(str, names)) != set(wanted):
            raise FolderError(
                f"{self.where}: the keys of id2label have gaps", "its keys are 0 to classes - 1"
            )
        return tuple(names[number] for number in wanted)

    def finish(self) -> None:
        """Refuses settings that were not read."""
        if unknown := sorted(set(self.table) - self._read):
            raise FolderError(
                f"{self.where}: the setting {unknown[0]!r} is unknown to regard",
                "if it does not change the model's output, remove it from config.json",
            )


@dataclass(frozen=True, kw_only=True)
class ConvertedConfig:
    """A Hugging Face config.json, converted."""

    config: ModelConfig
    labels: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()  # patterns of tensors in the file that this model does not use
    start_id: int | None = None  # the decoder's start token
    pad_id: int | None = None
    eos_id: int | None = None
    prefix: tuple[int, ...] = ()  # ids before every text, on both sides
    generation: Mapping[str, Any] = field(default_factory=dict)  # decoding defaults that differ from ours


class Family(ABC):
    """A Hugging Face model family: the models of one `model_type`."""

    name: ClassVar[str]
    config: ClassVar[type[ModelConfig]]
    special_tokens: ClassVar[
        Mapping[str, str]
    ] = {}  # the family's names of our special tokens, if no file has them
    renames: ClassVar[Sequence[tuple[str, str]]] = ()  # (pattern, replacement) for older tensor names
    buffers: ClassVar[Sequence[str]] = ()  # patterns of tensors that are not weights
    writes_fixed_tensors: ClassVar[bool] = False  # True: transformers looks for them in the file
    word_end: ClassVar[str] = ""  # what follows words in vocab.json; "": spaces are part of the word after
    language: ClassVar[str | None] = None  # the pattern of language tokens, with which texts begin
    ties: ClassVar[Mapping[str, str]] = {}  # a tied tensor that files may repeat -> the original

    @abstractmethod
    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        """Converts a config.json to ours; `names` are the folder's tensors, by the names of the table."""

    @abstractmethod
    def write(self, config: Any, labels: Sequence[str]) -> dict[str, Any]:
        """Converts our config to a config.json of the family, or the nearest one, without special tokens."""

    @abstractmethod
    def table(self, config: Any) -> list[Entry]:
        """The tensor names of a model of this config."""

    def old_names(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        """More patterns and replacements for older names, which depend on the other names."""
        return self.renames

    def with_other_files(self, described: ConvertedConfig, folder: Path) -> ConvertedConfig:
        """Adds what other files of the folder say about the model."""
        return described

    def fixed_tensors(self, config: Any) -> Mapping[str, Tensor]:
        """Tensors that follow from the config: files may lack them; files that have others are refused."""
        return {}

    def absent_tensors(self, config: Any) -> Mapping[str, Tensor]:
        """Tensors of the table that no file of the family has, because they are always these."""
        return {}

    def special_token_ids(self, config: Any, special_tokens: dict[str, int]) -> dict[str, Any]:
        """The special token ids for config.json, from those of the tokeniser."""
        return {name: number for name, number in special_tokens.items() if name != "first_token_id"}

    def other_files(self, config: Any) -> dict[str, bytes]:
        """Further files of the folder."""
        return {}

    def in_family_form(self, config: Any, tensors: Mapping[str, Tensor]) -> tuple[Any, Mapping[str, Tensor]]:
        """An equivalent model in the form of the family, if there is one."""
        return config, tensors


def widths(config: TransformerConfig) -> tuple[int, int, int]:
    """The widths of queries, keys and values."""
    kv_heads = config.num_kv_heads or config.num_heads
    return config.num_heads * config.d_head, kv_heads * config.d_head, kv_heads * config.d_head


MISFIT = "only architectures that transformers has can be converted"
NOT_OF_THE_SHAPE = (
    "fresh_head",
    "pad_id",
    "pixel_mean",
    "pixel_std",
    "resizing",
    "resized_size",
    "resampling",
    "cropped",
    "sampling_rate",
    "fft_size",
    "hop_length",
    "window_samples",
    "trained_length",
    "sentence_tokens",
    "sentence_prompt",
)


def canonical(config: ModelConfig) -> dict[str, Any]:
    """The settings of a config that determine the model's output, in a canonical form."""
    table = {
        name: value
        for name, value in config.to_dict().items()
        if not name.endswith("dropout") and name not in NOT_OF_THE_SHAPE
    }
    if not isinstance(config, TransformerConfig):
        return table
    if "head_activation" in table:
        usual = "gelu" if table["head"] in ("masked_language_model", "replaced_tokens") else "tanh"
        table["head_activation"] = table["head_activation"] or usual
    if table.get("head") in ("none", "masked_language_model", "replaced_tokens"):
        table["head_norm"] = False  # the second has a norm in any case, the others have none
    if table.get("embedding_size") == config.d_model:
        table["embedding_size"] = None
    table["num_kv_heads"] = config.num_kv_heads or config.num_heads
    table["head_dim"] = config.d_head
    table["attention_bias"] = config.attention_biases
    table["feed_forward_bias"] = config.has_feed_forward_bias
    if config.norm == "rms":  # its only other effect is on layer norms
        table.pop("bias")
    if isinstance(config, WindowConfig):
        table |= _canonical_windows(config)
    if config.rotary_dim == config.d_head:
        table["rotary_dim"] = None
    scale = config.attention_scale
    table["attention_scale"] = 1 / math.sqrt(config.d_head) if scale is None else scale
    if config.norm_eps is None:
        table["norm_eps"] = 1e-5 if config.norm == "layer" else 1e-6
    irrelevant = {
        "learned": ("position_layout", "position_buckets", "position_distance", "rotary_base"),
        "sinusoidal": (
            "max_positions",
            "position_offset",
            "position_buckets",
            "position_distance",
            "rotary_base",
        ),
        "rotary": (
            "max_positions",
            "position_offset",
            "position_layout",
            "position_buckets",
            "position_distance",
        ),
        "t5": ("max_positions", "position_offset", "position_layout", "rotary_base"),
    }
    for name in irrelevant.get(config.positions, ()):
        table.pop(name)
    if config.positions == "sinusoidal" and config.position_layout == "fairseq":
        table["position_offset"] = config.position_offset
    return table


def _canonical_windows(config: WindowConfig) -> dict[str, Any]:
    """The types of layers if there are several, and the rotary positions that layers have."""
    base, scaling, local = config.rotary_base, config.rotary_scaling, config.local_rotary_base
    if None not in config.windows and local is not None:
        base, scaling, local = local, None, None
    return {
        "layer_types": config.windows if len({*config.windows}) > 1 else None,
        "rotary_base": base,
        "rotary_scaling": scaling if scaling is None else config.to_dict()["rotary_scaling"],
        "local_rotary_base": None if local == base and scaling is None else local,
    }


def refuse_misfit(family: Family, config: ModelConfig, labels: Sequence[str]) -> None:
    """Checks that a config survives the conversion to the family and back.

    Raises:
        FolderError: a setting changes; the message names it.
    """
    written = family.write(config, labels)
    names = {name for entry in family.table(config) for name in entry.hf}
    try:
        read = family.read(ConfigReader(written, f"config.json of {family.name}"), names).config
    except ConfigError as error:
        raise FolderError(f"a {family.name} model would differ: {error.message}", MISFIT) from error
    if type(read) is not type(config):
        raise FolderError(f"a {config.kind} model is not a {family.name} model", "give another family")
    before, after = canonical(config), canonical(read)
    for name, value in before.items():
        if value != after.get(name, value):
            raise FolderError(
                f"{name} = {value!r}, but a {family.name} model has {after[name]!r}",
                MISFIT,
            )


def nearest_settings(family: Family, config: ModelConfig) -> dict[str, Any] | None:
    """What a model of the family has instead of the settings of `config`; None if it has none of its size.

    They are those that a conversion to the family and back changes.
    """
    if type(config) is not family.config:
        return None
    try:
        names = {name for entry in family.table(config) for name in entry.hf}
        read = family.read(ConfigReader(family.write(config, ()), family.name), names).config
        refuse_misfit(family, read, ())
    except (ConfigError, FolderError):
        return None
    before, after = canonical(config), canonical(read)
    found = {name: after[name] for name, value in before.items() if value != after.get(name, value)}
    return None if any(name.endswith("vocab_size") for name in found) else found


def ends_of(table: Mapping[str, Any], where: str, vocab_size: int) -> list[int]:
    """The eos ids of a config.json or generation_config.json: none, one or several."""
    value = table.get("eos_token_id")
    ids = value if isinstance(value, list) else [] if value in (None, -1) else [value]
    for each in ids:
        if type(each) is not int or not 0 <= each < vocab_size:
            raise FolderError(
                f"{where}: eos_token_id = {value!r} is not a token id",
                "give 0 to vocab_size - 1",
            )
    return ids


def activation_name(ours: str, otherwise: str = "gelu") -> str:
    """The transformers name of one of our activations; `otherwise` if it has none (see `refuse_misfit`)."""
    return next((name for name, value in ACTIVATION_NAMES.items() if value == ours), otherwise)
