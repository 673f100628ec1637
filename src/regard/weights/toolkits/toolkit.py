"""The base class of toolkits, and what a checkpoint of one is converted to."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from regard.data.tokenizer import Tokenizer
from regard.data.tokenizer_pretrained import SpecialTokens, with_special_tokens
from regard.errors import FolderError
from regard.models.config import ModelConfig
from regard.weights.names import Entry

NEVER = -10000.0  # the logit of a token that the toolkit does not have; softmax makes it 0 in any precision


@dataclass(frozen=True, kw_only=True)
class ToolkitCheckpoint:
    """A toolkit's checkpoint in regard's terms; `table` has the names of `tensors`."""

    path: Path
    config: ModelConfig
    table: Sequence[Entry]
    tensors: Mapping[str, Tensor]
    source: Tokenizer
    target: Tokenizer
    generation: dict[str, Any] = field(default_factory=dict)
    unused: tuple[str, ...] = ()  # names of tensors that change no output
    unused_decoding: tuple[str, ...] = ()  # decoding defaults that regard does not have


class Toolkit(ABC):
    """A translation toolkit."""

    name: ClassVar[str]
    title: ClassVar[str]  # the name as its authors write it

    @abstractmethod
    def recognises(self, path: Path) -> bool:
        """True if `path`, a file or a folder, looks like a checkpoint of this toolkit."""

    @abstractmethod
    def read(self, path: Path, *, trust_pickle: bool) -> ToolkitCheckpoint:
        """Reads a checkpoint.

        Raises:
            FolderError: a file is missing or damaged, or a setting is not supported.
        """


def checkpoint_file(path: Path, pattern: str, preferred: Sequence[str] = ()) -> Path:
    """The file `path`, or a folder's checkpoint: the first of `preferred` that is there, or the only one.

    Raises:
        FolderError: there is none, or there are several.
    """
    if path.is_file():
        return path
    found = sorted(path.glob(pattern))
    for name in preferred:
        if path / name in found:
            return path / name
    if len(found) == 1:
        return found[0]
    names = ", ".join(each.name for each in found[:5])
    raise FolderError(f"{path} has {len(found)} checkpoints: {names}", "name one of these files")


def with_row(embedding: Tensor, value: float = 0.0) -> Tensor:
    """A matrix or a vector with one row more, of this value."""
    return torch.cat([embedding, torch.full((1, *embedding.shape[1:]), value, dtype=embedding.dtype)])


def tokenizer_of(content: Mapping[str, Any], special: SpecialTokens, where: str) -> Tokenizer:
    """The tokeniser of a tokenizer.json with these special tokens."""
    return Tokenizer.from_bytes(json.dumps(with_special_tokens(content, special)).encode(), where)


def refuse_other_size(count: int, rows: int, where: str) -> None:
    """Raises a FolderError unless a vocabulary has as many pieces as the model has embeddings."""
    if count != rows:
        raise FolderError(
            f"{where} has {count:,} pieces, the model {rows:,} embeddings",
            "the vocabulary belongs to another model",
        )
