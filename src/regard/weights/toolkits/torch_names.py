"""What the checkpoints of several toolkits share: names of layers, tied and fixed tensors."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.errors import FolderError
from regard.layers.positions import Layout, sinusoids
from regard.models.encoder_decoder import EncoderDecoderConfig, Tied
from regard.weights.families.family import widths
from regard.weights.names import Entry, linear, same, stacked_tensors

HINT = "the settings describe another model than the weights"


@dataclass(frozen=True, kw_only=True)
class EmbeddingNames:
    """A toolkit's names of the matrices that a model may tie: both embeddings and the output layer."""

    source: str
    target: str
    output: str
    shared: str  # the matrix that serves both sides, if they share one

    def of_sides(self, tied: Tied) -> tuple[str, str]:
        """The names of the embeddings of source and target; one name if they are one matrix."""
        if tied in ("all", "embeddings"):
            return self.shared, self.shared
        return self.source, self.target

    def entries(self, tied: Tied) -> list[Entry]:
        """The entries of the matrices that a model tied in this way has."""
        source, target = self.of_sides(tied)
        entries = [same("decoder.input.embedding.weight", target)]
        if source != target:
            entries.append(same("encoder.input.embedding.weight", source))
        if tied in ("embeddings", "none"):
            entries.append(same("output.weight", self.output))
        return entries

    def drop_tied(self, tensors: dict[str, Tensor], tied: Tied, where: Path) -> None:
        """Removes the matrices that are tied to others.

        Raises:
            FolderError: one differs, although the settings tie it.
        """
        kept = self.of_sides(tied)
        if tied in ("all", "target"):
            drop_equal(tensors, self.output, kept[1], where)
        for name in {self.source, self.target}.difference(kept):
            drop_equal(tensors, name, self.shared, where)


def refuse_unequal_sides(
    encoder: Mapping[str, Any], decoder: Mapping[str, Any], names: Iterable[str], where: str
) -> None:
    """Raises a FolderError if a setting of `names` differs between encoder and decoder."""
    for name in names:
        if encoder[name] != decoder[name]:
            raise FolderError(
                f"{where}: {name} = {encoder[name]!r} in the encoder, {decoder[name]!r} in the decoder",
                "only models with equal settings on both sides are supported",
            )


def attention(
    config: EncoderDecoderConfig,
    ours: str,
    names: Sequence[str],
    output: str,
    *,
    bias: bool = True,
    output_bias: bool = True,
) -> list[Entry]:
    """Entries of a self-attention; `names` are those of query, key and value."""
    return [
        *stacked_tensors(f"{ours}.query_key_value", names, widths(config), bias=bias),
        *linear(f"{ours}.output", output, bias=output_bias),
    ]


def cross_attention(
    ours: str, names: Sequence[str], output: str, *, bias: bool = True, output_bias: bool = True
) -> list[Entry]:
    """Entries of a cross-attention; `names` are those of query, key and value."""
    parts = dict(zip(("query", "key", "value"), names, strict=True))
    entries = [entry for part, name in parts.items() for entry in linear(f"{ours}.{part}", name, bias=bias)]
    return [*entries, *linear(f"{ours}.output", output, bias=output_bias)]


def drop_equal(tensors: dict[str, Tensor], name: str, other: str, where: Path) -> None:
    """Removes a tensor that is tied to another one; it may be absent.

    Raises:
        FolderError: it differs, although the settings tie it.
    """
    found = tensors.pop(name, None)
    if found is not None and (other not in tensors or not torch.equal(found, tensors[other])):
        raise FolderError(f"{where}: {name!r} differs from {other!r}, to which it is tied", HINT)


def drop_sinusoids(
    tensors: dict[str, Tensor], name: str, where: Path, *, layout: Layout = "interleaved"
) -> None:
    """Removes a table of sinusoidal positions, [..., positions, d_model]; it may be absent.

    Raises:
        FolderError: its numbers are others.
    """
    found = tensors.pop(name, None)
    if found is None:
        return
    table = found.float().reshape(-1, found.shape[-1])
    if not torch.allclose(
        table, sinusoids(0, len(table), table.size(1), layout), atol=2e-3
    ):  # float32 angles
        raise FolderError(f"{where}: {name!r} are not sinusoidal positions", HINT)
