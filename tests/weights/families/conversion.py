"""What the tests of families share: config.json read without a folder, models through a folder and back."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from regard.errors import FolderError
from regard.models.build import build_model
from regard.models.config import ModelConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.vision import VisionConfig
from regard.weights.families.family import ConfigReader, ConvertedConfig
from regard.weights.huggingface_files import write_plain_folder
from regard.weights.model_folder import LoadedModel
from regard.weights.names import read_names, write_names
from regard.weights.pretrained import FAMILIES, PretrainedModel, load_pretrained, to_huggingface
from regard.weights.tensors import model_tensors

Table = Mapping[str, Any]


def converted(family: str, table: Table, names: Collection[str] = ()) -> ConvertedConfig:
    """What a config.json with these settings describes; `names` are the tensors beside it."""
    settings = ConfigReader(table, "config.json")
    found = FAMILIES[family].read(settings, names)
    settings.finish()
    return found


def refused(family: str, table: Table, message: str, hint: str = "") -> None:
    with pytest.raises(FolderError, match=message) as caught:
        converted(family, table)
    assert "config.json" in caught.value.message
    assert hint in caught.value.hint


def without(table: Table, *names: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in names}


def random_model(config: ModelConfig, labels: tuple[str, ...] = ()) -> LoadedModel:
    """A model in which no weight is as it was initialised: zeros and ones hide what is in the wrong place."""
    model = build_model(config, seed=3)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return LoadedModel(
        model=model.eval(),
        config=config,
        tokenizer_pair=None,
        labels=labels,
        generation={},
        path=Path("model"),
    )


def shapes(family: str, config: ModelConfig) -> dict[str, tuple[int, ...]]:
    """The tensors of a Hugging Face file of this model; they make the same model again."""
    tensors = model_tensors(random_model(config).model)
    table = FAMILIES[family].table(config)
    written = write_names(table, tensors)
    again = read_names(table, written, {name: each.shape for name, each in tensors.items()}, where="it")
    assert again.keys() == tensors.keys()
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)
    return {name: tuple(tensor.shape) for name, tensor in written.items()}


def through_folder(loaded: LoadedModel, family: str, path: Path) -> PretrainedModel:
    """The model read from the Hugging Face folder that is written of it."""
    write_plain_folder(path / family, to_huggingface(loaded, family).files)
    return load_pretrained(path / family)


@torch.no_grad()
def outputs(loaded: LoadedModel) -> Tensor:
    """The model's outputs for some ids of a text, or some images."""
    ids = torch.tensor([[3, 1, 4, 1, 5], [2, 7, 1, 8, 2]])
    lengths = torch.tensor([5, 4])
    match loaded.config:
        case EncoderDecoderConfig():
            return loaded.model(ids, lengths, ids)
        case EncoderOnlyConfig():
            return loaded.model(ids, lengths)
        case VisionConfig(channels=channels, image_size=size):
            return loaded.model(
                torch.rand(2, channels, size, size, generator=torch.Generator().manual_seed(2))
            )
    return loaded.model(ids)
