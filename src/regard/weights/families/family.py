"""What a family of foreign models is: its config, its names, its marks, read both ways."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from torch import Tensor

from regard.errors import FolderError, did_you_mean
from regard.models.config import ModelConfig, TransformerConfig
from regard.weights.families.ignored_settings import HARMLESS
from regard.weights.names import Entry

Value = TypeVar("Value")
INTEGERS = 2**63


def refuse_long(value: object, name: str) -> None:
    """Raise a FolderError for an integer that neither PyTorch nor a float can hold."""
    if type(value) is int and not -INTEGERS <= value < INTEGERS:
        raise FolderError(
            f"{name} is an integer of {value.bit_length():,} bits", "use the config.json of the weights"
        )


class ConfigReader:
    """A foreign `config.json`: each setting is read once, by its type; one that nobody reads is refused."""

    def __init__(self, table: Mapping[str, Any], where: str) -> None:
        self.table, self.where = table, where
        self._known: set[str] = set(HARMLESS)

    def take(self, kind: type[Value], *names: str, default: Value | None = None) -> Value:
        """The setting of the first of `names` that is there."""
        found = self.optional(kind, *names)
        if found is None and default is None:
            raise FolderError(f"{self.where}: {names[0]!r} is missing", "use the config.json of the weights")
        return default if found is None else found  # type: ignore[return-value]

    def optional(self, kind: type[Value], *names: str) -> Value | None:
        """The same, None where it is not there or null."""
        self._known.update(names)
        value = next((self.table[name] for name in names if self.table.get(name) is not None), None)
        if value is None:
            return None
        name = next(name for name in names if self.table.get(name) is not None)
        refuse_long(value, f"{self.where}: {name}")
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise FolderError(
                f"{self.where}: {name} = {value!r} is no {kind.__name__}",
                "use the config.json of the weights",
            )
        return value

    def choice(self, known: Mapping[str, Value], *names: str, default: str | None = None) -> Value:
        """What `known` calls the setting, a word."""
        word = self.take(str, *names, default=default)
        if word not in known:
            raise FolderError(
                f"{self.where}: {names[0]} = {word!r} is not supported", did_you_mean(word, known)
            )
        return known[word]

    def must_be(self, name: str, *values: object) -> None:
        """A setting that our model knows in one way only: the first of `values`, or none at all."""
        self._known.add(name)
        if name in self.table and self.table[name] not in (*values, None):
            raise FolderError(
                f"{self.where}: {name} = {self.table[name]!r} is not supported", f"only {values[0]!r} is"
            )

    def unused(self, *names: str) -> None:
        """Settings of this family that do not change what the model says."""
        self._known.update(names)

    def token(self, name: str, vocab_size: int) -> int | None:
        """The id of a mark; of several the first."""
        value = self.table.get(name)
        if isinstance(value, list) and value:
            value = value[0]
        if value is None or value == -1:
            return None
        if type(value) is not int or not 0 <= value < vocab_size:
            raise FolderError(
                f"{self.where}: {name} = {value!r} is no id of the vocabulary", "0 to vocab_size - 1"
            )
        return value

    def architecture(self) -> str:
        """The class that wrote the folder."""
        match self.table.get("architectures"):
            case [str(name), *_]:
                return name
            case None | []:
                return ""
        raise FolderError(
            f"{self.where}: architectures is no list of names", "use the config.json of the weights"
        )

    def labels(self) -> tuple[str, ...]:
        """The names of the classes, from `id2label`."""
        names = self.table.get("id2label")
        count = self.table.get("num_labels")
        if names is None:
            count = 2 if count is None else count
            if type(count) is not int or not 0 < count < 10**6:
                raise FolderError(f"{self.where}: num_labels = {count!r} is no count", "give id2label")
            return tuple(f"LABEL_{number}" for number in range(count))
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise FolderError(
                f"{self.where}: id2label is no table of names", "0 to the number of classes - 1"
            )
        wanted = [str(number) for number in range(len(names))]
        if set(map(str, names)) != set(wanted):
            raise FolderError(
                f"{self.where}: the numbers in id2label have gaps", "0 to the number of classes - 1"
            )
        return tuple(names[number] for number in wanted)

    def finish(self) -> None:
        """Refuse what nobody has asked for."""
        if unknown := sorted(set(self.table) - self._known):
            raise FolderError(
                f"{self.where}: the setting {unknown[0]!r} is unknown to regard",
                "if it does not change what the model says, take it out of config.json",
            )


@dataclass(frozen=True, kw_only=True)
class ConvertedConfig:
    """What a foreign config.json says."""

    config: ModelConfig
    labels: tuple[str, ...] = ()
    left: tuple[str, ...] = ()  # patterns of tensors that may be in the file and that this model does not use
    start_id: int | None = None  # what a decoder begins with
    pad_id: int | None = None
    eos_id: int | None = None
    prefix: tuple[int, ...] = ()  # what stands before every text, on both sides
    generation: Mapping[str, Any] = field(default_factory=dict)  # defaults of decoding that differ from ours


class Family(ABC):
    """Models that one `model_type` of config.json names."""

    name: ClassVar[str]
    config: ClassVar[type[ModelConfig]]
    marks: ClassVar[Mapping[str, str]] = {}  # what the family calls our marks, where no file says it
    changes: ClassVar[Sequence[tuple[str, str]]] = ()  # of older names to those of the table
    empty: ClassVar[Sequence[str]] = ()  # patterns of tensors that hold nothing learned
    ties: ClassVar[Mapping[str, str]] = {}  # a tensor that may be in the file again, and what it repeats

    @abstractmethod
    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        """Our config; `names` are the tensors that the folder has, in the names of the table."""

    @abstractmethod
    def write(self, config: Any, labels: Sequence[str]) -> dict[str, Any]:
        """Their config.json, but for the marks. Of a config that is none of theirs, the nearest."""

    @abstractmethod
    def table(self, config: Any) -> list[Entry]:
        """The names of all tensors."""

    def old_names(self, names: Collection[str]) -> Sequence[tuple[str, str]]:
        """`changes`, and those that the other names call for."""
        return self.changes

    def refined(self, described: ConvertedConfig, folder: Path) -> ConvertedConfig:
        """What other files of the folder say of the model."""
        return described

    def marks_of(self, config: Any, marks: dict[str, int]) -> dict[str, Any]:
        """What config.json says of the marks of the tokeniser; see `foreign_tokenizer.marks_of`."""
        return {name: number for name, number in marks.items() if name != "first_token_id"}

    def other_files(self, config: Any) -> dict[str, bytes]:
        """Files that stand beside config.json and the weights."""
        return {}

    def adapted(self, config: Any, tensors: Mapping[str, Tensor]) -> tuple[Any, Mapping[str, Tensor]]:
        """A model that says the same, and is nearer to the family where it can be."""
        return config, tensors


def widths(config: TransformerConfig) -> tuple[int, int, int]:
    """Of queries, keys and values."""
    kv_heads = config.num_kv_heads or config.num_heads
    return config.num_heads * config.d_head, kv_heads * config.d_head, kv_heads * config.d_head


NOT_OF_THE_SHAPE = (
    "fresh_head",
    "pad_id",
    "pixel_mean",
    "pixel_std",
    "trained_length",
    "sentence_tokens",
    "sentence_prompt",
)


def canonical(config: ModelConfig) -> dict[str, Any]:
    """What of a config decides what a model says, without what only training asks for."""
    table = {
        name: value
        for name, value in config.to_dict().items()
        if not name.endswith("dropout") and name not in NOT_OF_THE_SHAPE
    }
    if not isinstance(config, TransformerConfig):
        return table
    if "head_activation" in table:
        usual = "gelu" if table["head"] == "masked_language_model" else "tanh"
        table["head_activation"] = table["head_activation"] or usual
    table["num_kv_heads"] = config.num_kv_heads or config.num_heads
    table["head_dim"] = config.d_head
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
    return table


def refuse_misfit(family: Family, config: ModelConfig, labels: Sequence[str]) -> None:
    """A model is one of a family where its config comes back from their config.json as it was.

    Raises:
        FolderError: it does not; the first setting that the family has otherwise is named.
    """
    written = family.write(config, labels)
    names = {name for entry in family.table(config) for name in entry.theirs}
    read = family.read(ConfigReader(written, f"config.json of {family.name}"), names).config
    if type(read) is not type(config):
        raise FolderError(f"a {config.kind} model is none of {family.name}", "name another family")
    before, after = canonical(config), canonical(read)
    for name, value in before.items():
        if value != after.get(name, value):
            raise FolderError(
                f"{name} = {value!r} is not what a {family.name} model has: {after[name]!r}",
                "only models of a shape that transformers knows can be written for it",
            )


def ends_of(table: Mapping[str, Any], where: str, vocab_size: int) -> list[int]:
    """The ids that end a text by a config.json or generation_config.json, none, one or several."""
    value = table.get("eos_token_id")
    ids = value if isinstance(value, list) else [] if value in (None, -1) else [value]
    for each in ids:
        if type(each) is not int or not 0 <= each < vocab_size:
            raise FolderError(
                f"{where}: eos_token_id = {value!r} has what is no id of the vocabulary",
                "0 to vocab_size - 1",
            )
    return ids


def activation_name(known: Mapping[str, str], ours: str) -> str:
    """What the family calls one of our activations; of one that it does not know, nothing that reads back."""
    return next((name for name, value in known.items() if value == ours), next(iter(known)))
