"""A model of one's own: an encoder-decoder whose layers share their weights (Dehghani et al. 2019).

    python examples/model.py

A recipe names it: `[model] kind = "shared_layers"`.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

import regard
from regard.models import EncoderDecoder, EncoderDecoderConfig, register_model


@dataclass(frozen=True, kw_only=True)
class SharedLayersConfig(EncoderDecoderConfig):
    """The settings of an encoder-decoder; config.json and recipes have them under this kind."""

    kind: ClassVar[str] = "shared_layers"


@register_model(SharedLayersConfig)
class SharedLayers(EncoderDecoder):
    """An encoder-decoder with one encoder block and one decoder block, each applied several times."""

    def __init__(self, config: SharedLayersConfig) -> None:
        super().__init__(config)
        for stack in (self.encoder, self.decoder):
            stack.blocks = nn.ModuleList([stack.blocks[0]] * len(stack.blocks))


SMALL = [  # sequences of five symbols, learned in seconds
    *(f"data.{part}.length=5" for part in ("train", "valid", "test")),
    "data.train.size=10000",
    "data.test.size=100",
    "batches.batch_tokens=700",
    "training.max_steps=300",
]

if __name__ == "__main__":
    layers = ['model.kind="shared_layers"', "model.num_encoder_layers=2", "model.num_decoder_layers=2"]
    run = regard.train("reverse", out="runs/shared", overrides=[*layers, *SMALL], quiet=True)
    print(regard.translate("3 1 4 1 5", model=run.model))
