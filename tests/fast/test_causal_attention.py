"""Causal attention without a mask is that with the mask, and is used where masks are causal alone."""

import pytest
import torch

from regard.fast.causal_attention import causal_attentions, causal_training_attention
from regard.fast.training import fused
from regard.fast.training_attention import FEW_CAUSAL_KEYS, training_attention
from regard.layers.masks import causal_mask, window_mask
from regard.layers.scaled_dot_product import plain_attention
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig

SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32}


def text_model(**changes):
    table = {**SMALL, "num_layers": 2, "dropout": 0.0, "attention_dropout": 0.0, **changes}
    return build_model(DecoderOnlyConfig.from_table(table, vocab_size=30), seed=0).train()


def test_layers_with_a_window_do_not_have_it():
    model = text_model(window=3, layer_types=["sliding_attention", "full_attention"])
    with fused(model):
        assert [block.self_attention.attend for block in model.blocks] == [
            training_attention,
            causal_training_attention,
        ]
    assert not list(causal_attentions(text_model(window=3)))


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("length", [9, FEW_CAUSAL_KEYS + 7])
def test_it_is_attention_with_a_causal_mask(device, kv_heads, length):
    torch.manual_seed(0)
    query = torch.randn(3, 4, length, 8).to(device).requires_grad_()
    key, value = (torch.randn(3, kv_heads, length, 8).to(device).requires_grad_() for _ in range(2))
    mask, weights = causal_mask(length, device=device), torch.randn(3, 4, length, 8).to(device)
    found, exact = (
        attend(query, key, value, mask) for attend in (causal_training_attention, plain_attention)
    )
    torch.testing.assert_close(found, exact, atol=1e-5, rtol=1e-5)
    for ours, plain in zip(
        *(gradients(each, (query, key, value), weights) for each in (found, exact)), strict=True
    ):
        torch.testing.assert_close(ours, plain, atol=2e-5, rtol=1e-5)


def gradients(output, inputs, weights):
    return torch.autograd.grad((output * weights).sum(), inputs)


def test_a_long_causal_attention_on_a_cpu_is_computed_without_a_mask(monkeypatch):
    masks, kernel = [], torch.nn.functional.scaled_dot_product_attention

    def recorded(query, key, value, attn_mask=None, *arguments, **options):
        masks.append(attn_mask)
        return kernel(query, key, value, attn_mask, *arguments, **options)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", recorded)
    length = FEW_CAUSAL_KEYS + 1
    query = torch.randn(1, 1, length, 8)
    causal = causal_mask(length)
    causal_training_attention(query, query, query, causal)
    causal_training_attention(query, query, query, causal & window_mask(length, 5, length))
    assert [each is None for each in masks] == [True, False]


@pytest.mark.parametrize("length", [9, FEW_CAUSAL_KEYS + 7])
def test_another_mask_is_not_taken_for_a_causal_one(device, length):
    torch.manual_seed(0)
    query, key, value = (torch.randn(3, 4, length, 8).to(device) for _ in range(3))
    documents = causal_mask(length, device=device).repeat(3, 1, 1, 1)
    documents[1, :, 5:, :5] = False
    one = [each[1:2] for each in (query, key, value)]
    for given, mask in (((query, key, value), documents), (one, documents[1:2])):
        torch.testing.assert_close(
            causal_training_attention(*given, mask), plain_attention(*given, mask), atol=1e-5, rtol=1e-5
        )


def test_it_is_used_in_decoders_whose_masks_are_causal_alone():
    sizes = {
        **SMALL,
        "num_encoder_layers": 1,
        "num_decoder_layers": 2,
        "src_vocab_size": 30,
        "tgt_vocab_size": 30,
    }
    pairs, texts = build_model(EncoderDecoderConfig(**sizes), seed=0), text_model()
    with fused(pairs), fused(texts):
        assert [block.self_attention.attend for block in pairs.decoder.blocks] == [
            causal_training_attention
        ] * 2
        assert pairs.encoder.blocks[0].self_attention.attend is training_attention
        assert pairs.decoder.blocks[0].cross_attention.attend is training_attention
        assert [block.self_attention.attend for block in texts.blocks] == [causal_training_attention] * 2
    assert texts.blocks[0].self_attention.attend not in (causal_training_attention, training_attention)


class Own(DecoderOnly):
    """A subclass may have another mask."""

    def _mask(self, new_len, key_len, device):
        return window_mask(new_len, 2, key_len, device=device)


def test_a_window_and_a_subclass_keep_their_masks():
    windowed, own = text_model(window=3), Own(text_model().config)
    for model in (windowed, own):
        assert list(causal_attentions(model)) == []
        with fused(model):
            assert model.blocks[0].self_attention.attend is training_attention


def test_a_model_that_is_trained_gives_the_same_numbers(device):
    from tests.simulated_device import moved

    model = moved(text_model(), device)
    ids = torch.randint(4, 30, (3, 12), generator=torch.Generator().manual_seed(0)).to(device)
    exact = model(ids)
    with fused(model):
        torch.testing.assert_close(model(ids), exact, atol=2e-5, rtol=1e-5)
