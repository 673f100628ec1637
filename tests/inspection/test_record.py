"""A recorder hears every attention and changes nothing."""

import math

import pytest
import torch

from regard.errors import ConfigError
from regard.inspection.passes import attention_sites
from regard.inspection.record import (
    attentions,
    blocks,
    record_attention,
    record_model,
    recording_bytes,
    refuse_unknown,
)
from regard.layers.scaled_dot_product import attention, masked_softmax, plain_attention
from regard.models.build import build_model
from regard.models.conformer import ConformerConfig
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.vision import VisionConfig

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
    return build_model(EncoderDecoderConfig(**TINY, **options), seed=0).eval()


def test_what_is_computed_stays_the_same_to_the_bit(model):
    before = model(SRC, LENGTHS, TGT)
    with record_attention(model):
        recorded = model(SRC, LENGTHS, TGT)
    assert torch.equal(recorded, before)
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


def test_every_attention_is_recorded_with_its_shape(model):
    with record_attention(model) as recording:
        model(SRC, LENGTHS, TGT)
    shapes = {name: tuple(recording.last_weights(name).shape) for name in recording.weights_by_call}
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
    for calls in recording.weights_by_call.values():
        torch.testing.assert_close(calls[0].sum(-1), torch.ones(calls[0].shape[:-1]))
    cross = recording.last_weights("decoder.blocks.1.cross_attention")
    assert not cross[1, :, :, 2:].any(), "padding is not looked at"
    ahead = recording.last_weights("decoder.blocks.0.self_attention").triu(1)
    assert not ahead.any(), "nothing looks ahead"


def test_the_weights_are_those_that_mix_the_values(model):
    attention = model.decoder.blocks[1].cross_attention
    kernel_calls = {}

    def kernel(query, key, value, mask, position_bias, dropout):
        kernel_calls["value"], kernel_calls["head_output"] = (
            value,
            plain_attention(query, key, value, mask, position_bias, dropout),
        )
        return kernel_calls["head_output"]

    attention.attend = kernel
    with record_attention(model) as recording:
        model(SRC, LENGTHS, TGT)
    weights = recording.last_weights("decoder.blocks.1.cross_attention")
    value = kernel_calls["value"].repeat_interleave(4 // kernel_calls["value"].size(1), dim=1)
    torch.testing.assert_close(weights @ value, kernel_calls["head_output"])
    assert attention.attend is kernel, "what was there before is there again"


def test_a_failure_inside_takes_the_recorder_out_too(model):
    usual = [block.cross_attention.attend for block in model.decoder.blocks]
    with pytest.raises(ZeroDivisionError), record_attention(model):
        _ = 1 / 0
    assert [block.cross_attention.attend for block in model.decoder.blocks] == usual


def test_only_chosen_attentions_are_recorded_call_by_call(model):
    name = "decoder.blocks.0.self_attention"
    with record_attention(model, [name]) as recording:
        for _ in range(3):
            model(SRC, LENGTHS, TGT)
    assert list(recording.weights_by_call) == [name]
    assert len(recording.weights_by_call[name]) == 3
    assert not recording.last_weights(name).requires_grad


def test_step_by_step_decoding_is_recorded_as_one_pass(model):
    name = "decoder.blocks.1.cross_attention"
    with torch.no_grad(), record_attention(model, [name]) as recording:
        cache = model.start(model.encode(SRC, LENGTHS))
        for position in range(TGT.size(1)):
            model.extend(TGT[:, [position]], cache)
        model(SRC, LENGTHS, TGT)
    *steps, at_once = recording.weights_by_call[name]
    torch.testing.assert_close(torch.cat(steps, dim=2), at_once)


@pytest.fixture(params=["additive", "dot", "general", "concat", "feeding"])
def recurrent(request):
    options = {"attention": "dot", "input_feeding": True}
    if request.param != "feeding":
        options = {"attention": request.param}
    return build_model(
        RecurrentConfig(src_vocab_size=11, tgt_vocab_size=11, d_model=16, d_embedding=8, **options), 0
    )


def test_a_recurrent_decoder_is_recorded_without_changing_its_output(recurrent):
    before = recurrent.eval()(SRC, LENGTHS, TGT)
    with record_attention(recurrent) as recording:
        assert torch.equal(recurrent(SRC, LENGTHS, TGT), before)
    assert list(recording.weights_by_call) == ["decoder.attention"]
    weights = recording.weights("decoder.attention", row=None)
    assert weights.shape == (2, 1, 3, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 3))
    assert not weights[1, :, :, 2:].any(), "padding is not looked at"
    torch.testing.assert_close(recording.last_weights("decoder.attention")[:, :, -1], weights[:, :, -1])
    assert torch.equal(recurrent(SRC, LENGTHS, TGT), before)


# More than weights

ALL = ("query", "key", "value", "mask", "bias", "scores", "weights", "head_output")
SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32}


def translator(**options):
    return build_model(EncoderDecoderConfig(**{**TINY, **options}), seed=0).eval()


def writer(**options):
    sizes = {**SMALL, "num_layers": 2, "vocab_size": 11}
    return build_model(DecoderOnlyConfig(**{**sizes, **options}), seed=0).eval()


def conformer(**options):
    sizes = {**SMALL, "num_features": 8, "num_labels": 5, "num_layers": 1, "kernel_size": 3}
    return build_model(ConformerConfig(**{**sizes, **options}), seed=0).eval()


def image_reader():
    sizes = {**SMALL, "num_labels": 3, "image_size": 8, "channels": 1, "patch_size": 4, "num_layers": 1}
    return build_model(VisionConfig(**sizes), seed=0).eval()


def encoder(**options):
    sizes = {**SMALL, "vocab_size": 11, "num_layers": 1}
    return build_model(EncoderOnlyConfig(**{**sizes, **options}), seed=0).eval()


MODELS = {
    "translator": (lambda: translator(), (SRC, LENGTHS, TGT)),
    "rotary translator with shared heads": (
        lambda: translator(positions="rotary", num_kv_heads=2, norm_position="pre"),
        (SRC, LENGTHS, TGT),
    ),
    "T5": (lambda: translator(positions="t5", attention_scale=1.0, head_dim=6), (SRC, LENGTHS, TGT)),
    "writer": (lambda: writer(positions="rotary", qk_norm=True), (TGT,)),
    "windowed writer": (lambda: writer(positions="alibi", window=2), (TGT,)),
    "soft-capped writer": (lambda: writer(attention_softcap=0.5, logit_softcap=2.0, window=2), (TGT,)),
    "parallel writer": (lambda: writer(parallel_residual="one_norm", positions="rotary"), (TGT,)),
    "masked language model": (lambda: encoder(head="masked_language_model"), (SRC, LENGTHS)),
    "classifier": (lambda: encoder(head="classification", num_labels=3), (SRC, LENGTHS)),
    "bare encoder": (lambda: encoder(head="none"), (SRC, LENGTHS)),
    "conformer": (lambda: conformer(), (torch.linspace(-1, 1, 320).view(2, 20, 8), torch.tensor([20, 12]))),
    "image reader": (image_reader, (torch.linspace(-1, 1, 128).view(2, 1, 8, 8),)),
}
LENGTH_OF = {"source": 4, "read": 3, "text": 5}


@pytest.fixture(params=MODELS)
def case(request):
    make, given = MODELS[request.param]
    return make(), given


@torch.no_grad()
def test_every_kind_of_model_has_the_same_output_to_the_bit_when_recorded(case):
    model, given = case
    before = model(*given)
    with record_model(model, parts=ALL, hidden=blocks(model), logits=True) as recording:
        assert torch.equal(model(*given), before)
    assert torch.equal(model(*given), before)
    assert torch.equal(recording.logits(row=None).reshape(before.shape), before)
    assert not any(module._forward_hooks for module in model.modules()), "no hook stays"


@torch.no_grad()
def test_what_is_recorded_is_what_the_kernel_mixed(case):
    """The parts fit together: query . key is the score, the mask hides, the weights mix the values."""
    model, given = case
    with record_model(model, parts=ALL) as recording:
        model(*given)
    for name in recording.heads:
        query, key = recording.query(name, row=None), recording.key(name, row=None)
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        bias, mask = recording.bias(name, row=None), recording.mask(name, row=None)
        scores = scores if bias is None else scores + bias
        torch.testing.assert_close(recording.scores(name, row=None), scores)
        weights = recording.weights(name, row=None)
        torch.testing.assert_close(weights, masked_softmax(scores, mask))
        torch.testing.assert_close(
            recording.head_output(name, row=None),
            weights @ recording.value(name, row=None),
            rtol=1e-4,
            atol=1e-6,
        )


@torch.no_grad()
def test_recording_bytes_is_an_upper_bound(case):
    model, given = case
    wanted = {"parts": ALL, "hidden": blocks(model), "logits": True}
    bound = recording_bytes(model, LENGTH_OF, batch_size=2, **wanted)
    with record_model(model, limit=bound, **wanted) as recording:
        model(*given)
    assert 0 < recording.bytes_held <= bound
    weights = recording_bytes(model, LENGTH_OF, batch_size=2)
    if "source" in {place.rows for place in attention_sites(model)}:
        with record_model(model) as recording:
            model(*given)
        assert recording.bytes_held == weights, "to the byte, where nothing is shared or absent"


def test_more_than_the_limit_is_refused_and_the_model_is_left_as_it_was():
    model = translator()
    usual = [module.attend for module in attentions(model).values()]
    with (
        pytest.raises(ConfigError, match="more than its limit of 0 MiB") as refused,
        record_model(model, limit=100),
    ):
        model(SRC, LENGTHS, TGT)
    assert "fewer layers" in refused.value.hint
    assert [module.attend for module in attentions(model).values()] == usual


@torch.no_grad()
def test_only_the_chosen_layers_and_heads_are_recorded_and_others_keep_their_kernel():
    model = translator(num_kv_heads=2)
    name = "decoder.blocks.1.cross_attention"
    with record_model(model, parts=ALL) as everything:
        model(SRC, LENGTHS, TGT)
    with record_model(model, [name], parts=ALL, heads={name: [3, 1]}) as recording:
        others = [module for other, module in attentions(model).items() if other != name]
        assert all(module.attend is attention for module in others)
        model(SRC, LENGTHS, TGT)
    assert recording.heads == {name: (3, 1)}
    for part in ("weights", "query", "key", "value", "head_output", "scores"):
        whole, chosen = (getattr(each, part)(name) for each in (everything, recording))
        torch.testing.assert_close(chosen, whole[[3, 1]])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"names": ["decoder.blocks.0.self_atention"]}, "no attention 'decoder.blocks.0.self_atention'"),
        ({"heads": {"decoder.blocks.0.self_attention": [4]}}, "it has 4"),
        ({"hidden": ["decoder.block.0"]}, "no module 'decoder.block.0'"),
    ],
)
def test_what_there_is_not_is_refused_with_a_hint(wanted, message):
    with pytest.raises(ConfigError, match=message) as refused, record_model(translator(), **wanted):
        pass
    assert refused.value.hint
    with pytest.raises(ConfigError, match=message):
        recording_bytes(translator(), LENGTH_OF, **wanted)


def test_an_unknown_part_is_refused_with_a_hint():
    """Called directly: the annotations of `record_model` refuse it first where tests check them."""
    with pytest.raises(ConfigError, match="no part 'weight'") as refused:
        refuse_unknown(translator(), {}, ["weight"], {}, ())
    assert refused.value.hint == "did you mean 'weights'?"


def test_record_attention_refuses_an_unknown_name_too():
    with (
        pytest.raises(ConfigError, match="no attention 'decoder'"),
        record_attention(translator(), ["decoder"]),
    ):
        pass


@torch.no_grad()
def test_recording_bytes_is_an_upper_bound_for_linear_layers_of_any_width_and_input():
    model = translator()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Linear):
            with record_model(model, [], hidden=[name]) as recording:
                model(SRC, LENGTHS, TGT)
            bound = recording_bytes(model, LENGTH_OF, [], hidden=[name], batch_size=2)
            assert 0 < recording.bytes_held <= bound, name


def test_what_was_not_recorded_is_named():
    model, name = translator(), "decoder.blocks.0.self_attention"
    with record_model(model, [name]) as recording:
        with pytest.raises(ConfigError, match="was not called"):
            recording.weights(name)
        model(SRC, LENGTHS, TGT)
    for ask in (recording.query, recording.mask, recording.bias):
        with pytest.raises(ConfigError, match=r"no (query|mask|bias) of"):
            ask(name)
    with pytest.raises(ConfigError, match="nothing is recorded under 'logits'"):
        recording.logits()


@torch.no_grad()
def test_recordings_lie_one_in_the_other():
    model, name = translator(), "decoder.blocks.0.cross_attention"
    with record_model(model, [name]) as outer:
        with record_model(model, [name], parts=("query",)) as inner:
            model(SRC, LENGTHS, TGT)
        model(SRC, LENGTHS, TGT)
    assert (len(outer.calls_by_module[name]), len(inner.calls_by_module[name])) == (2, 1)
    assert torch.equal(outer.last_weights(name), outer.weights_by_call[name][0])
    outer.clear()
    assert outer.bytes_held == 0
    with pytest.raises(ConfigError, match="was not called"):
        outer.last_weights(name)


@torch.no_grad()
def test_recorded_weights_have_no_dropout():
    """In training, weights are those before dropout, and head outputs those after it."""
    model, name = translator(attention_dropout=0.5).train(), "decoder.blocks.0.self_attention"
    with record_model(model, [name], parts=("weights", "head_output", "value")) as recording:
        model(SRC, LENGTHS, TGT)
    weights = recording.weights(name)
    torch.testing.assert_close(weights.sum(-1), torch.ones(4, 3))
    assert not torch.allclose(recording.head_output(name), weights @ recording.value(name))


@torch.no_grad()
def test_a_recurrent_attention_has_scores_and_values_but_no_queries(recurrent):
    name = "decoder.attention"
    with record_model(recurrent.eval(), parts=ALL, limit=10**6) as recording:
        recurrent(SRC, LENGTHS, TGT)
    weights = masked_softmax(recording.scores(name, None), recording.mask(name, None))
    torch.testing.assert_close(recording.weights(name, None), weights)
    torch.testing.assert_close(weights @ recording.value(name, None), recording.head_output(name, None))
    assert recording.bias(name) is None
    with pytest.raises(ConfigError, match=r"no query of decoder\.attention"):
        recording.query(name)
    assert recording.bytes_held <= recording_bytes(
        recurrent, {"source": 4, "read": 3}, parts=ALL, batch_size=2
    )


@torch.no_grad()
@pytest.mark.parametrize(
    "parts",
    [("weights", "value", "head_output"), ALL, ("query", "key", "value", "mask", "bias", "head_output")],
)
def test_recorded_weights_of_soft_capped_scores_are_those_of_the_kernel(parts):
    model = writer(attention_softcap=0.05)
    for block in model.blocks:
        block.self_attention.query_key_value.weight *= 20  # so that the cap matters
    with record_model(model, parts=parts) as recording:
        model(TGT)
    for name in recording.heads:
        weights, value = recording.weights(name), recording.value(name)
        torch.testing.assert_close(weights @ value, recording.head_output(name))
        if "scores" in parts:
            assert recording.scores(name).abs().max() <= 0.05
