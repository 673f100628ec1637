"""The fast step gives what `extend` gives: for every kind of part, whatever the cache went through."""

import gc
import weakref

import pytest
import torch

from regard.fast.decoding_step import fast_step, forget_step, why_plain
from regard.fast.int8 import Int8Linear, to_int8
from regard.fast.native import kernels
from regard.inspection.record import record_attention
from regard.layers.rotary_scaling import YarnScaling
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig
from tests.nightly import each_once, name_of

VOCAB = 23


pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")


SHAPES = [
    {},
    {"norm_position": "pre", "activation": "gelu"},
    {"norm_position": "sandwich", "norm": "rms", "activation": "swiglu"},
    {"norm_position": "pre", "norm": "rms", "positions": "rotary", "num_kv_heads": 2, "bias": False},
    {"norm_position": "pre", "positions": "rotary", "qk_norm": True},
    {"positions": "learned", "head_dim": 6, "attention_scale": 1.0, "norm_eps": 1e-3},
    {"positions": "none", "num_kv_heads": 1, "activation": "geglu"},
    {"positions": "rotary", "rotary_scaling": YarnScaling(factor=4.0, original_length=8, beta_fast=2.0)},
    {"attention_bias": "inputs", "feed_forward_bias": True, "activation": "swiglu", "bias": False},
]
WINDOWS = [{"window": window, "positions": "rotary"} for window in (1, 2, 6, 30)]


def translator(**table):
    config = EncoderDecoderConfig(
        **{"src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "d_model": 32, "num_heads": 4, "d_ff": 48,
           "num_encoder_layers": 1, "num_decoder_layers": 2, **table}
    )  # fmt: skip
    return perturbed(build_model(config, seed=1).eval())


def writer(**table):
    config = DecoderOnlyConfig(
        **{"vocab_size": VOCAB, "d_model": 32, "num_heads": 4, "d_ff": 48, "num_layers": 2, **table}
    )
    return perturbed(build_model(config, seed=1).eval())


@torch.no_grad()
def perturbed(model):
    """Biases and gains that are not 0 and 1."""
    torch.manual_seed(2)
    for parameter in model.parameters():
        parameter += 0.1 * torch.randn_like(parameter)
    return model


def sources():
    lengths = torch.tensor([3, 5, 1, 4])
    ids = torch.randint(4, VOCAB, (4, 5), generator=torch.Generator().manual_seed(0))
    return ids.masked_fill(torch.arange(5) >= lengths[:, None], 0), lengths


@torch.no_grad()
def said(step, cache, steps=20):
    """The logits of some steps; rows are repeated, dropped and swapped on the way."""
    generator, rows, found = torch.Generator().manual_seed(1), 4, []
    for number in range(steps):
        found.append(step(torch.randint(4, VOCAB, (rows,), generator=generator), cache))
        if number % 5 == 2:
            chosen = torch.randint(0, rows, (rows + number % 3 - 1,), generator=generator)
            cache, rows = cache.select(chosen), len(chosen)
    return torch.cat(found)


def same(model, cache):
    step = fast_step(model)
    assert step is not None
    plain = said(lambda ids, held: model.extend(ids[:, None], held)[:, -1], cache())
    assert (said(step, step.slots(cache(), 4)) - plain).abs().max() < 1e-5 * plain.abs().max()


@pytest.mark.parametrize("shape", [*SHAPES, {"scaled_output": True, "output_bias": True}])
def test_translators_step_as_they_do(shape):
    model = translator(**shape)
    with torch.no_grad():
        memory = model.encode(*sources())
        same(model, lambda: model.start(memory))


@pytest.mark.parametrize(
    "shape",
    [
        *SHAPES,
        *WINDOWS,
        {"output_bias": True, "tied": False},
        {"window": 2, "layer_types": ("sliding_attention",), "positions": "rotary", "local_rotary_base": 9.0},
    ],
)
def test_writers_step_as_they_do(shape):
    model = writer(**shape)
    same(model, model.start)


def test_products_in_int8_are_those_of_the_model():
    model = translator()
    to_int8(model, least=0)
    if not kernels.has_int8():
        assert "the kernels of this machine have no int8" in why_plain(model)
        return
    with torch.no_grad():
        memory = model.encode(*sources())
        same(model, lambda: model.start(memory))


def test_an_output_layer_in_int8_needs_no_kernel():
    """The largest layer of small models is called after the plan."""
    model = translator()
    model.output = Int8Linear(model.output)
    with torch.no_grad():
        memory = model.encode(*sources())
        same(model, lambda: model.start(memory))


@pytest.mark.parametrize("d_ff", [48, 832])
def test_a_row_has_the_same_bits_in_any_batch(d_ff):
    model = writer(d_ff=d_ff, positions="rotary", norm_position="pre")
    step = fast_step(model)
    assert step is not None
    ids = torch.randint(4, VOCAB, (384,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        found = [step(ids[:rows], step.slots(model.start(), rows))[:4] for rows in (4, 8, 20, 128, 136, 384)]
    assert all(torch.equal(each, found[0]) for each in found)


@pytest.mark.parametrize("window", [6, 30])
def test_a_window_drops_what_nobody_attends_to(window):
    """Over many times the capacity, and continued from a cache that has dropped positions too."""
    model = writer(window=window, positions="rotary")
    step = fast_step(model)
    with torch.no_grad():
        ids = torch.randint(4, VOCAB, (4, 150), generator=torch.Generator().manual_seed(5))
        plain, other = model.start(), model.start()
        expected = torch.cat([model.extend(ids[:, [place]], plain)[:, -1] for place in range(150)])
        for place in range(70):
            model.extend(ids[:, [place]], other)
        for cache, first in ((step.slots(model.start(), 4), 0), (step.slots(other, 4), 70)):
            found = torch.cat([step(ids[:, place], cache) for place in range(first, 150)])
            torch.testing.assert_close(found, expected[4 * first :], rtol=1e-4, atol=1e-5)
            assert cache.size <= 4 * 128
            assert cache.length == 150
            with pytest.raises(ValueError, match="cannot be cut to 20"):
                cache.cut(20)


@pytest.mark.parametrize("positions", ["alibi", "t5"])
def test_parts_that_it_does_not_know_it_leaves_to_the_model(positions):
    model = translator(positions=positions)
    assert fast_step(model) is None
    assert "positions are a bias of scores" in why_plain(model)


@torch.no_grad()
def test_rotary_positions_of_a_part_of_each_head_are_left_to_the_model():
    model = writer(positions="rotary", rotary_dim=4)
    assert fast_step(model) is None
    assert "its positions rotate a part of each head" in why_plain(model)
    assert fast_step(writer(positions="rotary", rotary_dim=model.config.d_head)) is not None


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"parallel_residual": "one_norm"}, "ParallelBlock is not a type that it knows"),
        ({"parallel_residual": "two_norms"}, "ParallelBlock is not a type that it knows"),
        ({"norm_position": "reordered"}, "ReorderedNorm is not a type that it knows"),
        ({"qk_norm": "all_heads"}, "queries and keys of all heads are normalised together"),
        ({"attention_softcap": 3.0}, "its scores are soft-capped"),
        ({"logit_softcap": 3.0}, "SoftcappedLinear is not a type that it knows"),
        (
            {"window": 2, "layer_types": ("full_attention", "sliding_attention")},
            "its layers have different windows",
        ),
    ],
    ids=str,
)
def test_settings_without_kernels_are_left_to_the_model(table, reason):
    model = writer(norm_position=table.pop("norm_position", "pre"), **table)
    assert fast_step(model) is None
    assert reason in why_plain(model)
    assert not isinstance(to_int8(model, least=0), str)


def test_a_model_without_attention_is_left_to_itself():
    config = RecurrentConfig(src_vocab_size=VOCAB, tgt_vocab_size=VOCAB, d_model=8)
    assert fast_step(build_model(config, seed=0).eval()) is None


def test_whoever_listens_hears_the_model_itself():
    model = translator()
    assert fast_step(model) is not None
    with record_attention(model):
        assert fast_step(model) is None
    handle = model.decoder.blocks[0].register_forward_hook(lambda *given: None)
    assert fast_step(model) is None
    handle.remove()
    assert fast_step(model) is not None
    assert fast_step(model.train()) is None


def test_a_step_is_forgotten():
    model = writer()
    step = weakref.ref(fast_step(model))
    forget_step(model)
    forget_step(model)
    gc.collect()
    assert step() is None
    same(model, model.start)


def test_new_weights_are_noticed():
    model = writer()
    first = fast_step(model)
    assert fast_step(model) is first
    with torch.no_grad():
        model.output.weight.mul_(2)
    assert fast_step(model) is not first
    same(model, model.start)


@pytest.mark.parametrize(
    ("make", "shape"), each_once([translator, writer], [{}, {"positions": "rotary"}]), ids=name_of
)
def test_a_model_that_nobody_uses_is_freed_with_its_step(make, shape):
    model = make(**shape)
    step = weakref.ref(fast_step(model))
    held = weakref.ref(model)
    del model
    gc.collect()
    assert held() is None
    assert step() is None
