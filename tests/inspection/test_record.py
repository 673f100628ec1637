"""A recorder hears every attention and changes nothing."""

import pytest
import torch

from regard.inspection.record import record_attention
from regard.layers.kernels import plain_attention
from regard.models.build import build
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig

TINY = {
    "src_vocab_size": 11,
    "tgt_vocab_size": 11,
    "d_model": 16,
    "num_heads": 4,
    "d_ff": 32,
    "num_encoder_layers": 1,
    "num_decoder_layers": 2,
}
SRC, LENGTHS = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([4, 2])
TGT = torch.tensor([[2, 8, 9], [2, 10, 3]])


@pytest.fixture(params=["plain", "shared heads", "biased"])
def model(request):
    options = {"plain": {}, "shared heads": {"num_kv_heads": 2}, "biased": {"positions": "t5"}}[request.param]
    return build(EncoderDecoderConfig(**TINY, **options), seed=0).eval()


def test_what_is_computed_stays_the_same_to_the_bit(model):
    before = model(SRC, LENGTHS, TGT)
    with record_attention(model):
        watched = model(SRC, LENGTHS, TGT)
    assert torch.equal(watched, before)
    assert torch.equal(model(SRC, LENGTHS, TGT), before)


def test_training_with_dropout_stays_the_same_to_the_bit(model):
    def gradient():
        model.train().zero_grad()
        torch.manual_seed(5)
        model(SRC, LENGTHS, TGT).sum().backward()
        return next(model.parameters()).grad

    before = gradient().clone()
    with record_attention(model):
        assert torch.equal(gradient(), before)


def test_every_attention_is_heard_with_its_shape(model):
    with record_attention(model) as recording:
        model(SRC, LENGTHS, TGT)
    shapes = {name: tuple(recording.last(name).shape) for name in recording.calls}
    assert shapes == {
        "encoder.blocks.0.self_attention": (2, 4, 4, 4),
        "decoder.blocks.0.self_attention": (2, 4, 3, 3),
        "decoder.blocks.0.cross_attention": (2, 4, 3, 4),
        "decoder.blocks.1.self_attention": (2, 4, 3, 3),
        "decoder.blocks.1.cross_attention": (2, 4, 3, 4),
    }


def test_weights_are_shares_of_what_may_be_looked_at(model):
    with record_attention(model) as recording:
        model(SRC, LENGTHS, TGT)
    for calls in recording.calls.values():
        torch.testing.assert_close(calls[0].sum(-1), torch.ones(calls[0].shape[:-1]))
    cross = recording.last("decoder.blocks.1.cross_attention")
    assert not cross[1, :, :, 2:].any(), "padding is not looked at"
    ahead = recording.last("decoder.blocks.0.self_attention").triu(1)
    assert not ahead.any(), "nothing looks ahead"


def test_the_weights_are_those_that_mix_the_values(model):
    attention = model.decoder.blocks[1].cross_attention
    seen = {}

    def kernel(query, key, value, mask, position_bias, dropout):
        seen["value"], seen["mixed"] = value, plain_attention(query, key, value, mask, position_bias, dropout)
        return seen["mixed"]

    attention.attend = kernel
    with record_attention(model) as recording:
        model(SRC, LENGTHS, TGT)
    weights = recording.last("decoder.blocks.1.cross_attention")
    value = seen["value"].repeat_interleave(4 // seen["value"].size(1), dim=1)
    torch.testing.assert_close(weights @ value, seen["mixed"])
    assert attention.attend is kernel, "what was there before is there again"


def test_a_failure_inside_takes_the_recorder_out_too(model):
    usual = [block.cross_attention.attend for block in model.decoder.blocks]
    with pytest.raises(ZeroDivisionError), record_attention(model):
        _ = 1 / 0
    assert [block.cross_attention.attend for block in model.decoder.blocks] == usual


def test_only_those_asked_for_are_heard_and_each_call_apart(model):
    name = "decoder.blocks.0.self_attention"
    with record_attention(model, [name]) as recording:
        for _ in range(3):
            model(SRC, LENGTHS, TGT)
    assert list(recording.calls) == [name]
    assert len(recording.calls[name]) == 3
    assert not recording.last(name).requires_grad


def test_decoding_step_by_step_is_heard_as_reading_at_once(model):
    name = "decoder.blocks.1.cross_attention"
    with torch.no_grad(), record_attention(model, [name]) as recording:
        cache = model.start(model.encode(SRC, LENGTHS))
        for position in range(TGT.size(1)):
            model.extend(TGT[:, [position]], cache)
        model(SRC, LENGTHS, TGT)
    *steps, at_once = recording.calls[name]
    torch.testing.assert_close(torch.cat(steps, dim=2), at_once)


@pytest.fixture(params=["additive", "dot", "general", "concat", "feeding"])
def recurrent(request):
    options = {"attention": "dot", "input_feeding": True}
    if request.param != "feeding":
        options = {"attention": request.param}
    return build(
        RecurrentConfig(src_vocab_size=11, tgt_vocab_size=11, d_model=16, d_embedding=8, **options), 0
    )


def test_a_recurrent_decoder_is_heard_too_and_says_the_same(recurrent):
    before = recurrent.eval()(SRC, LENGTHS, TGT)
    with record_attention(recurrent) as recording:
        assert torch.equal(recurrent(SRC, LENGTHS, TGT), before)
    assert list(recording.calls) == ["decoder.attention"]
    weights = recording.whole("decoder.attention")
    assert weights.shape == (2, 1, 3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 3))
    assert not weights[1, :, :, 2:].any(), "padding is not looked at"
    torch.testing.assert_close(recording.last("decoder.attention")[:, :, -1], weights[:, :, -1])
    assert torch.equal(recurrent(SRC, LENGTHS, TGT), before)
