"""A family of pretrained models: Seed-OSS (ByteDance 2025), which is Llama with other biases in attention.

    python examples/pretrained_family.py FOLDER     # a Hugging Face folder with model_type "seed_oss"

A family says how its config.json and the names of its tensors become those of a model of regard. This one
inherits nearly all of it. For another architecture write `read`, `write` and `table`; the files of
`regard/weights/families/` show how.
"""

import sys
from typing import Any

import regard
from regard.models import DecoderOnlyConfig
from regard.weights import register_family
from regard.weights.families.family import ConfigReader
from regard.weights.families.llama import Llama


class SeedOss(Llama):
    """Llama with biases of queries, keys and values if `attention_bias`, as by default, and of no output."""

    name = "seed_oss"
    architecture = "SeedOssForCausalLM"
    head_dim = 128

    def biases(self, settings: ConfigReader) -> dict[str, Any]:
        settings.must_be("attention_out_bias", False)
        settings.unused("residual_dropout")  # of training
        inputs = settings.take(bool, "attention_bias", default=True)
        network = settings.take(bool, "mlp_bias", default=False)
        return {"attention_bias": "inputs" if inputs else "none", "feed_forward_bias": network}

    def written_biases(self, config: DecoderOnlyConfig) -> dict[str, Any]:
        return {
            "attention_bias": config.attention_biases == "inputs",
            "mlp_bias": config.has_feed_forward_bias,
        }


register_family(SeedOss())

if __name__ == "__main__":
    print(regard.generate("The sea", model=sys.argv[1]) if sys.argv[1:] else "registered: seed_oss")
