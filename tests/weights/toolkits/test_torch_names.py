"""The tensors of an attention: of each part the weight, and the bias unless the checkpoint has none."""

import pytest

from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.toolkits.torch_names import attention, cross_attention

CONFIG = EncoderDecoderConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=16, num_heads=2)
CASES = [
    ({}, {"qkv": True, "output": True}),
    ({"bias": False}, {"qkv": False, "output": True}),
    ({"output_bias": False}, {"qkv": True, "output": False}),
]


@pytest.mark.parametrize(("given", "biases"), CASES, ids=str)
def test_each_part_has_a_bias_unless_it_is_to_have_none(given, biases):
    stacked = attention(CONFIG, "a", ["q", "k", "v"], "o", **given)
    separate = cross_attention("a", ["q", "k", "v"], "o", **given)
    kinds = {part: ["weight", "bias"] if has else ["weight"] for part, has in biases.items()}
    assert [(each.ours, each.hf) for each in stacked] == [
        *((f"a.query_key_value.{kind}", (f"q.{kind}", f"k.{kind}", f"v.{kind}")) for kind in kinds["qkv"]),
        *((f"a.output.{kind}", (f"o.{kind}",)) for kind in kinds["output"]),
    ]
    assert [(each.ours, each.hf) for each in separate] == [
        *(
            (f"a.{ours}.{kind}", (f"{theirs}.{kind}",))
            for ours, theirs in (("query", "q"), ("key", "k"), ("value", "v"))
            for kind in kinds["qkv"]
        ),
        *((f"a.output.{kind}", (f"o.{kind}",)) for kind in kinds["output"]),
    ]
