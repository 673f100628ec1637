"""What the checkpoints of toolkits written in PyTorch share: names of layers, tied and fixed tensors."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard.errors import FolderError
from regard.layers.positions import Layout, sinusoids
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.families.family import widths
from regard.weights.names import Entry, linear, stacked_tensors

HINT = "the settings describe another model than the weights"


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
        raise FolderError(f"{where}: {name!r} are no sinusoidal positions", HINT)
