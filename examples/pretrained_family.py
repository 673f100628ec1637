"""A family of pretrained models: Mistral (Jiang et al. 2023), which is Llama with a sliding window.

    python examples/pretrained_family.py FOLDER     # a Hugging Face folder with model_type "mistral"

A family says how its config.json and the names of its tensors become those of a model of regard. This one
inherits nearly all of it. For another architecture write `read`, `write` and `table`; the files of
`regard/weights/families/` show how.
"""

import dataclasses
import sys
from collections.abc import Collection, Sequence
from typing import Any

import regard
from regard.models import DecoderOnlyConfig
from regard.weights import register_family
from regard.weights.families.family import ConfigReader, ConvertedConfig
from regard.weights.families.llama import Llama


class Mistral(Llama):
    """Llama with `sliding_window`: a position attends to itself and the `sliding_window` - 1 before it."""

    name = "mistral"
    architecture = "MistralForCausalLM"

    def read(self, settings: ConfigReader, names: Collection[str]) -> ConvertedConfig:
        window = settings.optional(int, "sliding_window")
        converted = super().read(settings, names)
        return dataclasses.replace(converted, config=dataclasses.replace(converted.config, window=window))

    def write(self, config: DecoderOnlyConfig, labels: Sequence[str]) -> dict[str, Any]:
        return {**super().write(config, labels), "sliding_window": config.window}


register_family(Mistral())

if __name__ == "__main__":
    print(regard.generate("The sea", model=sys.argv[1]) if sys.argv[1:] else "registered: mistral")
