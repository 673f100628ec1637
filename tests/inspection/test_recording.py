"""Calls are put together into the picture that reading at once gives."""

import pytest
import torch

from regard.errors import ConfigError
from regard.inspection.record import blocks, record_model
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig

ALL = ("query", "key", "value", "mask", "bias", "scores", "weights", "head_output")
SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32}
SRC, LENGTHS = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([4, 2])
TGT = torch.tensor([[2, 8, 9], [2, 10, 3]])


def translator(**options):
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 2}
    sizes = {"src_vocab_size": 11, "tgt_vocab_size": 11, **SMALL, **layers}
    return build_model(EncoderDecoderConfig(**sizes, **options), seed=0).eval()


def writer(**options):
    return build_model(DecoderOnlyConfig(vocab_size=11, num_layers=2, **SMALL, **options), seed=0).eval()


CACHED = [
    lambda: translator(),
    lambda: translator(positions="rotary", num_kv_heads=2),
    lambda: translator(positions="t5"),
    lambda: translator(positions="alibi", norm_position="pre"),
]


@pytest.mark.parametrize("make", CACHED)
@torch.no_grad()
def test_a_target_decoded_with_a_cache_has_the_picture_of_one_read_at_once(make):
    model = make()
    with record_model(model, parts=ALL, hidden=blocks(model), logits=True) as at_once:
        model(SRC, LENGTHS, TGT)
    with record_model(model, parts=ALL, hidden=blocks(model), logits=True) as stepwise:
        cache = model.start(model.encode(SRC, LENGTHS))
        model.extend(TGT[:, :1], cache)
        model.extend(TGT[:, 1:2], cache)
        model.extend(TGT[:, 2:], cache)
    same_pictures(stepwise, at_once)
    for block in blocks(model):
        torch.testing.assert_close(stepwise.hidden(block, None), at_once.hidden(block, None))
    torch.testing.assert_close(stepwise.logits(None), at_once.logits(None))


@pytest.mark.parametrize("options", [{"positions": "rotary"}, {"positions": "rotary", "window": 3}])
@torch.no_grad()
def test_a_text_written_with_a_cache_has_the_picture_of_one_read_at_once(options):
    model, ids = writer(**options), torch.tensor([[2, 8, 9, 4, 5, 6, 7]])
    with record_model(model, parts=ALL) as at_once:
        model(ids)
    with record_model(model, parts=ALL) as stepwise:
        cache = model.start()
        for begin, end in ((0, 2), (2, 3), (3, 4), (4, 7)):
            model.extend(ids[:, begin:end], cache)
    same_pictures(stepwise, at_once)


def same_pictures(found, expected):
    for name in expected.heads:
        for part in ("weights", "query", "key", "value", "head_output"):
            torch.testing.assert_close(
                getattr(found, part)(name, None), getattr(expected, part)(name, None), msg=f"{part} of {name}"
            )
        ours, theirs = found.mask(name, None), expected.mask(name, None)
        assert torch.equal(ours.expand_as(theirs), theirs)
        visible = ours.expand_as(found.scores(name, None))
        torch.testing.assert_close(found.scores(name, None)[visible], expected.scores(name, None)[visible])
        assert (found.bias(name, None) is None) == (expected.bias(name, None) is None)


@torch.no_grad()
def test_a_recording_stays_when_the_cache_continues():
    model, name = writer(), "blocks.0.self_attention"
    with record_model(model, [name], parts=ALL) as recording:
        cache = model.start()
        model.extend(TGT, cache)
        before = recording.key(name, None).clone()
        cache.select(torch.tensor([1, 0]))
        model.extend(TGT[:, :1], cache)
    assert torch.equal(recording.calls_by_module[name][0].parts["key"], before)


@torch.no_grad()
def test_a_memory_that_is_looked_at_in_each_step_is_held_once():
    model, name = translator(), "decoder.blocks.0.cross_attention"
    with record_model(model, [name], parts=("key", "value")) as recording:
        cache = model.start(model.encode(SRC, LENGTHS))
        model.extend(TGT[:, :1], cache)
        once = recording.bytes_held
        for _ in range(5):
            model.extend(TGT[:, :1], cache)
    assert recording.bytes_held == once == 2 * 2 * 4 * 16 * 4
    assert recording.key(name).shape == (4, 4, 4)


@pytest.mark.parametrize("make", CACHED)
@torch.no_grad()
def test_weights_are_computed_of_queries_and_keys_where_they_were_not_recorded(make):
    model = make()
    with record_model(model, parts=ALL) as everything:
        model(SRC, LENGTHS, TGT)
    with record_model(model, parts=("query", "key", "mask", "bias")) as recording:
        cache = model.start(model.encode(SRC, LENGTHS))
        for position in range(TGT.size(1)):
            model.extend(TGT[:, [position]], cache)
    for name in recording.heads:
        torch.testing.assert_close(recording.weights(name, None), everything.weights(name, None))
        torch.testing.assert_close(recording.weights(name, 1), everything.weights(name, 1))


@torch.no_grad()
def test_an_attention_and_its_output_are_recorded_together():
    model, name = translator(), "decoder.blocks.0.cross_attention"
    with record_model(model, [name], parts=("key", "weights")) as apart:
        model(SRC, LENGTHS, TGT)
    with record_model(model, [], hidden=[name]) as output:
        model(SRC, LENGTHS, TGT)
    with record_model(model, [name], parts=("key", "weights"), hidden=[name]) as both:
        model(SRC, LENGTHS, TGT)
    assert torch.equal(both.weights(name, None), apart.weights(name, None))
    assert torch.equal(both.key(name, None), apart.key(name, None))
    assert torch.equal(both.hidden(name, None), output.hidden(name, None))
    assert both.bytes_held == apart.bytes_held + output.bytes_held
    both.clear()
    with pytest.raises(ConfigError, match="was not called"):
        both.hidden(name)


@torch.no_grad()
def test_several_passes_are_not_joined_into_one():
    model, name = writer(), "blocks.0.self_attention"
    with record_model(model, [name], hidden=["blocks.0"], logits=True) as recording:
        model(TGT)
        model.extend(TGT, model.start())
        for read in (lambda: recording.weights(name), lambda: recording.hidden("blocks.0"), recording.logits):
            with pytest.raises(ConfigError, match=r"^2 passes of ") as caught:
                read()
            assert "clear()" in caught.value.hint
        recording.clear()
        cache = model.start()
        model.extend(TGT[:, :1], cache)
        model.extend(TGT[:, 1:], cache)
    assert recording.weights(name).shape == (4, 3, 3)
    assert recording.hidden("blocks.0").shape == (3, 16)


@torch.no_grad()
def test_two_sources_are_not_joined_into_one():
    model, name = translator(), "encoder.blocks.0.self_attention"
    with record_model(model, [name], hidden=["encoder.blocks.0"]) as recording:
        for _ in range(2):
            model.encode(SRC, LENGTHS)
    for read in (lambda: recording.weights(name), lambda: recording.hidden("encoder.blocks.0")):
        with pytest.raises(ConfigError, match="2 passes"):
            read()
