"""Settings in which pretrained families differ: each has its effect, and its default changes nothing."""

import math

import pytest
import torch
import torch.nn.functional as F

from regard.errors import ConfigError
from regard.layers.attention import MultiHeadAttention, SelfAttention
from regard.layers.feedforward import GatedFeedForward, feed_forward
from regard.layers.norm import norm
from regard.layers.positions import LearnedPositions
from regard.models.build import build_model
from regard.models.conformer import ConformerConfig
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig

SMALL = {"d_model": 12, "num_heads": 3, "d_ff": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
BOTH = {"src_vocab_size": 9, "tgt_vocab_size": 9, **SMALL}
SRC, LENGTHS, TGT = torch.tensor([[4, 5, 6]]), torch.tensor([3]), torch.tensor([[2, 7]])


def test_heads_may_be_wider_or_narrower_than_their_share():
    for attention in (MultiHeadAttention(10, 4, d_head=3), SelfAttention(10, 4, num_kv_heads=2, d_head=6)):
        x = torch.randn(2, 5, 10)
        assert attention(x, x).shape == x.shape
        assert attention.output.in_features == 4 * attention.d_head


def test_a_scale_multiplies_the_scores():
    usual = MultiHeadAttention(12, 3)
    scaled = MultiHeadAttention(12, 3, scale=1.0)
    scaled.load_state_dict(usual.state_dict())
    x = torch.randn(2, 5, 12)
    assert not torch.allclose(usual(x, x), scaled(x, x))
    with torch.no_grad():
        scaled.query.weight /= math.sqrt(4)
        scaled.query.bias /= math.sqrt(4)
    torch.testing.assert_close(scaled(x, x), usual(x, x))


def test_positions_begin_after_the_offset():
    table = LearnedPositions(4, 5, offset=2)
    assert table.weight.shape == (7, 4)
    torch.testing.assert_close(table(0, 5), table.weight[2:])
    torch.testing.assert_close(table.at(torch.tensor([[0, 4]])), table.weight[[2, 6]][None])
    with pytest.raises(ValueError, match="max_positions"):
        table(1, 5)


@pytest.mark.parametrize(("kind", "usual"), [("layer", 1e-5), ("rms", 1e-6)])
def test_eps_is_the_usual_one_or_another(kind, usual):
    x = 1e-3 * torch.randn(3, 8)
    torch.testing.assert_close(norm(kind, 8)(x), norm(kind, 8, eps=usual)(x), rtol=0, atol=0)
    assert (norm(kind, 8, eps=1.0)(x).abs() < 0.01).all()


def test_activations_are_torch_s():
    x = torch.linspace(-4, 4, 33)[:, None]
    plain = feed_forward("gelu_tanh", 1, 1)
    torch.testing.assert_close(plain.activation(x), F.gelu(x, approximate="tanh"))
    for kind, function in (("swiglu", F.silu), ("geglu", F.gelu)):
        gated = feed_forward(kind, 4, 6)
        assert isinstance(gated, GatedFeedForward)
        torch.testing.assert_close(gated.activation(x), function(x))


def test_the_two_embeddings_may_be_one_and_the_output_another():
    model = build_model(EncoderDecoderConfig(tied="embeddings", **BOTH), seed=0)
    assert model.encoder.input.embedding.weight is model.decoder.input.embedding.weight
    assert model.output.weight is not model.decoder.input.embedding.weight
    with pytest.raises(ConfigError, match="needs one vocabulary"):
        EncoderDecoderConfig(**{**BOTH, "tied": "embeddings", "tgt_vocab_size": 10})


def test_a_bias_of_logits_begins_at_zero_and_is_added():
    usual = build_model(EncoderDecoderConfig(**BOTH), seed=0).eval()
    biased = build_model(EncoderDecoderConfig(output_bias=True, **BOTH), seed=0).eval()
    torch.testing.assert_close(biased(SRC, LENGTHS, TGT), usual(SRC, LENGTHS, TGT))
    with torch.no_grad():
        biased.output.bias += torch.arange(9.0)
    torch.testing.assert_close(biased(SRC, LENGTHS, TGT), usual(SRC, LENGTHS, TGT) + torch.arange(9.0))


def test_a_scaled_output_divides_by_the_root_of_the_width():
    usual = build_model(EncoderDecoderConfig(**BOTH), seed=0).eval()
    scaled = build_model(EncoderDecoderConfig(scaled_output=True, **BOTH), seed=0).eval()
    torch.testing.assert_close(scaled(SRC, LENGTHS, TGT), usual(SRC, LENGTHS, TGT) / math.sqrt(12))


def test_a_base_turns_more_slowly():
    sizes = {"vocab_size": 9, "d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 1, "positions": "rotary"}
    usual, slow = (
        build_model(DecoderOnlyConfig(**sizes, rotary_base=base), seed=0) for base in (10000.0, 500000.0)
    )
    assert (
        usual.blocks[0].self_attention.rotary.cosine[9, 1] < slow.blocks[0].self_attention.rotary.cosine[9, 1]
    )


def test_a_normalised_vector_has_length_1():
    sizes = {"vocab_size": 9, "d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 1, "head": "pooled"}
    model = build_model(
        EncoderOnlyConfig(**sizes, pooling="mean", pooler=False, normalised=True), seed=0
    ).eval()
    length = model(torch.tensor([[4, 5, 6], [4, 0, 0]]), torch.tensor([3, 1])).norm(dim=1)
    torch.testing.assert_close(length, torch.ones(2))


@pytest.mark.parametrize(
    ("settings", "pattern"),
    [
        ({"head_dim": 0}, "head_dim = 0 is too small"),
        ({"attention_scale": 0.0}, "attention_scale = 0.0 is out of range"),
        ({"norm_eps": -1e-5}, "norm_eps = -1e-05 is out of range"),
        ({"position_offset": -1}, "position_offset = -1 is below 0"),
        ({"position_buckets": 3}, "position_buckets = 3"),
        ({"position_buckets": 32, "position_distance": 16}, "position_distance = 16"),
        ({"rotary_base": 1.0}, "rotary_base = 1.0 is not above 1"),
        ({"head_dim": 5, "positions": "rotary"}, "head_dim is 5"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(settings, pattern):
    with pytest.raises(ConfigError, match=pattern):
        EncoderDecoderConfig(**BOTH, **settings)


def test_a_conformer_has_heads_of_the_usual_width():
    with pytest.raises(ConfigError, match="a conformer model has no setting head_dim = 7"):
        ConformerConfig(num_features=4, num_labels=3, head_dim=7)


def test_a_source_whose_end_is_not_read_gives_what_it_gives_without_an_end():
    reads, omits = (
        build_model(EncoderDecoderConfig(source_end=end, **BOTH), seed=0).eval() for end in (True, False)
    )
    src, tgt = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]]), torch.tensor([[2, 4, 5], [2, 6, 7]])
    both = omits(src, torch.tensor([4, 2]), tgt)
    torch.testing.assert_close(both, reads(src, torch.tensor([3, 1]), tgt))
    assert not torch.allclose(both, reads(src, torch.tensor([4, 2]), tgt))
    assert omits(torch.tensor([[3]]), torch.tensor([1]), tgt[:1]).isfinite().all()
