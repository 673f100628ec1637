"""The straight step is that of the model: for every kind of part, whatever the cache went through."""

import pytest
import torch

from regard.inspection.record import record_attention
from regard.layers.int8 import to_int8
from regard.models import straight_seated
from regard.models.build import build
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.straight import straight
from regard.models.straight_linear import AT_ONCE, WIDE
from regard.native import kernels
from regard.native.plan import Plan, Unplanned

VOCAB = 23


@pytest.fixture(autouse=True, params=["kernels", "plain"])
def forms(request, monkeypatch):
    """Each test with the C kernels, and without."""
    if request.param == "plain":
        monkeypatch.setattr(kernels, "available", lambda: False)
    elif not kernels.available():
        pytest.skip("no C compiler")


SHAPES = [
    {},
    {"norm_position": "pre", "activation": "gelu"},
    {"norm_position": "sandwich", "norm": "rms", "activation": "swiglu"},
    {"norm_position": "pre", "norm": "rms", "positions": "rotary", "num_kv_heads": 2, "bias": False},
    {"norm_position": "pre", "positions": "rotary", "qk_norm": True},
    {"positions": "learned", "head_dim": 6, "attention_scale": 1.0, "norm_eps": 1e-3},
    {"positions": "none", "num_kv_heads": 1, "activation": "geglu"},
]


def translator(**table):
    config = EncoderDecoderConfig(
        **{"src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "d_model": 32, "num_heads": 4, "d_ff": 48,
           "num_encoder_layers": 1, "num_decoder_layers": 2, **table}
    )  # fmt: skip
    return perturbed(build(config, seed=1).eval())


def writer(**table):
    config = DecoderOnlyConfig(
        **{"vocab_size": VOCAB, "d_model": 32, "num_heads": 4, "d_ff": 48, "num_layers": 2, **table}
    )
    return perturbed(build(config, seed=1).eval())


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
def said(step, cache, moves=True):
    """The logits of some steps; rows are repeated, dropped and swapped on the way."""
    generator, rows, found = torch.Generator().manual_seed(1), 4, []
    for number in range(20):
        found.append(step(torch.randint(4, VOCAB, (rows,), generator=generator), cache))
        if moves and number % 5 == 2:
            chosen = torch.randint(0, rows, (rows + number % 3 - 1,), generator=generator)
            cache, rows = cache.select(chosen), len(chosen)
    return torch.cat(found)


def same(model, cache):
    step = straight(model)
    assert step is not None
    plain = said(lambda ids, held: model.extend(ids[:, None], held)[:, -1], cache())
    assert (said(step, step.seat(cache())) - plain).abs().max() < 1e-5 * plain.abs().max()


@pytest.mark.parametrize("shape", [*SHAPES, {"scaled_output": True, "output_bias": True}])
def test_translators_step_as_they_do(shape):
    model = translator(**shape)
    with torch.no_grad():
        memory = model.encode(*sources())
        same(model, lambda: model.start(memory))


@pytest.mark.parametrize("shape", [*SHAPES, {"window": 6, "positions": "rotary"}])
def test_writers_step_as_they_do(shape):
    model = writer(**shape)
    same(model, model.start)


def refused(*_given):
    raise Unplanned


@pytest.mark.parametrize("make", [translator, writer])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_planned_step_is_that_of_its_kernels_one_by_one(make, shape, monkeypatch):
    if not kernels.available():
        pytest.skip("nothing is planned")
    found, plans = [], []
    for plan in (lambda *given: plans.append(Plan(*given)) or plans[-1], refused):
        monkeypatch.setattr(straight_seated, "Plan", plan)
        model = make(**shape)
        step = straight(model)
        with torch.no_grad():
            memory = [model.encode(*sources())] if make is translator else []
            found.append(said(step, step.seat(model.start(*memory))))
    assert torch.equal(*found)
    assert bool(plans) == (not shape.get("qk_norm") and shape.get("norm_position") != "sandwich")


def test_products_in_int8_are_those_of_the_model():
    model = translator()
    to_int8(model, least=0)
    with torch.no_grad():
        memory = model.encode(*sources())
        same(model, lambda: model.start(memory))


@pytest.mark.parametrize("d_ff", [48, WIDE + 64])
def test_a_row_has_the_same_bits_in_any_company(d_ff):
    model = writer(d_ff=d_ff, positions="rotary", norm_position="pre")
    step = straight(model)
    assert step is not None
    ids = torch.randint(4, VOCAB, (3 * AT_ONCE,), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        found = [
            step(ids[:rows], step.seat(model.start()))[:4]
            for rows in (4, 8, 20, AT_ONCE, AT_ONCE + 8, 3 * AT_ONCE)
        ]
    assert all(torch.equal(each, found[0]) for each in found)


@pytest.mark.parametrize("positions", ["alibi", "t5"])
def test_parts_that_it_does_not_know_it_leaves_to_the_model(positions):
    assert straight(translator(positions=positions)) is None


def test_a_model_without_attention_is_left_to_itself():
    config = RecurrentConfig(src_vocab_size=VOCAB, tgt_vocab_size=VOCAB, d_model=8)
    assert straight(build(config, seed=0).eval()) is None


def test_whoever_listens_hears_the_model_itself():
    model = translator()
    assert straight(model) is not None
    with record_attention(model):
        assert straight(model) is None
    handle = model.decoder.blocks[0].register_forward_hook(lambda *given: None)
    assert straight(model) is None
    handle.remove()
    assert straight(model) is not None
    assert straight(model.train()) is None


def test_new_weights_are_noticed():
    model = writer()
    first = straight(model)
    assert straight(model) is first
    with torch.no_grad():
        model.output.weight.mul_(2)
    assert straight(model) is not first
    same(model, model.start)
