"""The tensors of an attention: of each part the weight, and the bias unless the checkpoint has none."""

import pytest
import torch

from regard.errors import FolderError
from regard.layers.positions import sinusoids
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.toolkits.torch_names import attention, cross_attention, drop_equal, drop_sinusoids

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


def test_a_cross_attention_has_three_names():
    for names in (["q", "k"], ["q", "k", "v", "w"]):
        with pytest.raises(ValueError, match="zip"):
            cross_attention("a", names, "o")


def test_a_table_of_sinusoids_may_be_there_and_other_numbers_may_not(tmp_path):
    for table in (sinusoids(0, 6, 4, "interleaved"), sinusoids(0, 6, 4, "interleaved")[None]):
        tensors = {"pe": table, "other": torch.ones(1)}
        drop_sinusoids(tensors, "pe", tmp_path)
        drop_sinusoids(tensors, "pe", tmp_path)
        assert list(tensors) == ["other"]
    for table in (sinusoids(1, 6, 4, "interleaved"), sinusoids(0, 6, 4, "split")):
        with pytest.raises(FolderError, match="'pe' are not sinusoidal positions"):
            drop_sinusoids({"pe": table}, "pe", tmp_path)


def test_a_tied_tensor_equals_the_one_to_which_it_is_tied(tmp_path):
    tensors = {"a": torch.ones(2), "b": torch.ones(2)}
    drop_equal(tensors, "a", "b", tmp_path)
    drop_equal(tensors, "a", "b", tmp_path)
    assert list(tensors) == ["b"]
    for other in ({"b": torch.zeros(2)}, {}):
        with pytest.raises(FolderError, match="'a' differs from 'b', to which it is tied"):
            drop_equal({"a": torch.ones(2), **other}, "a", "b", tmp_path)
