"""The depth of a weight is counted from the head down, in each stack of layers."""

from torch import nn

from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.vision import VisionConfig
from regard.training.layer_depths import depths
from tests.training.test_optimizer import Layered

SIZES = {"d_model": 8, "num_heads": 2, "d_ff": 8}


def test_an_encoder_and_a_decoder_count_their_layers_each_from_its_own_end():
    config = EncoderDecoderConfig(
        src_vocab_size=9,
        tgt_vocab_size=9,
        num_encoder_layers=3,
        num_decoder_layers=2,
        norm_position="pre",
        tied="none",
        **SIZES,
    )
    found = depths(build_model(config, seed=0))
    assert found["output.weight"] == found["encoder.norm.weight"] == found["decoder.norm.weight"] == 0
    assert found["encoder.blocks.2.feed_forward.inner.weight"] == 1
    assert found["decoder.blocks.1.feed_forward.inner.weight"] == 1
    assert found["encoder.blocks.0.feed_forward.inner.weight"] == 3
    assert found["encoder.input.embedding.weight"] == 4
    assert found["decoder.input.embedding.weight"] == 3


def test_what_is_added_before_the_layers_is_below_them_and_a_head_above():
    model = build_model(
        EncoderOnlyConfig(vocab_size=9, head="classification", num_labels=2, num_layers=2, **SIZES)
    )
    found = depths(model)
    assert {name for name, depth in found.items() if depth == 0} == {
        name for name, _ in model.head.named_parameters(prefix="head")
    }
    assert {depth for name, depth in found.items() if name.startswith("encoder.input")} == {3}
    images = depths(
        build_model(VisionConfig(num_labels=2, image_size=8, patch_size=4, num_layers=2, **SIZES))
    )
    assert images["class_token"] == images["positions.weight"] == 3
    assert images["norm.weight"] == images["head.weight"] == 0


def test_lists_inside_a_layer_and_lists_without_weights_are_no_layers():
    net = Layered()
    net.blocks = nn.ModuleList(
        nn.ModuleDict({"parts": nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])}) for _ in range(3)
    )
    net.dropouts = nn.ModuleList([nn.Dropout(), nn.Dropout()])
    found = depths(net)
    assert [found[f"blocks.{layer}.parts.1.weight"] for layer in range(3)] == [3, 2, 1]
    assert (found["input.weight"], found["head.weight"]) == (4, 0)
