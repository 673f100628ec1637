"""An encoder without padding gives the model's states for each source, in any batch."""

from typing import get_args

import pytest
import torch

from regard.fast import encoder
from regard.fast.decoding_step import fast_step
from regard.fast.native import kernels
from regard.fast.slot_cache import SlotCache
from regard.layers.feedforward import Activation
from regard.layers.rotary_scaling import YarnScaling
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig, attended_lengths

pytestmark = pytest.mark.skipif(not kernels.available(), reason="no C compiler")
VOCAB = 23
LENGTHS = [3, 30, 1, 12, 17, 12]
SHAPES = [
    {},
    {"norm_position": "pre", "activation": "gelu"},
    {"norm_position": "pre", "activation": "quick_gelu"},
    {"norm_position": "sandwich", "norm": "rms", "activation": "swiglu"},
    {"norm_position": "pre", "norm": "rms", "positions": "rotary", "num_kv_heads": 2, "bias": False},
    {"norm_position": "pre", "positions": "rotary", "qk_norm": True},
    {"positions": "learned", "head_dim": 6, "attention_scale": 1.0, "norm_eps": 1e-3},
    {"positions": "none", "num_kv_heads": 1, "activation": "geglu"},
    {"positions": "rotary", "rotary_scaling": YarnScaling(factor=4.0, original_length=8, beta_fast=2.0)},
    {"attention_bias": "inputs", "feed_forward_bias": True, "activation": "swiglu", "bias": False},
    {"source_end": False, "positions": "rotary"},
]


@pytest.fixture(autouse=True, params=[128, 12], ids=["short", "long"])
def long(request, monkeypatch):
    """How sources are looked at: all by the kernels, or the longer ones by PyTorch."""
    monkeypatch.setattr(encoder, "LONG", request.param)


@torch.no_grad()
def translator(**table):
    config = EncoderDecoderConfig(
        **{"src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "d_model": 32, "num_heads": 4, "d_ff": 48,
           "num_encoder_layers": 2, "num_decoder_layers": 2, **table}
    )  # fmt: skip
    model = build_model(config, seed=1).eval()
    torch.manual_seed(2)
    for parameter in model.parameters():  # biases and gains that are not 0 and 1
        parameter += 0.1 * torch.randn_like(parameter)
    return model


def sources():
    lengths = torch.tensor(LENGTHS)
    ids = torch.randint(4, VOCAB, (len(LENGTHS), 33), generator=torch.Generator().manual_seed(0))
    return ids.masked_fill(torch.arange(33) >= lengths[:, None], 0), lengths


@torch.no_grad()
def started(model, src_ids, src_lengths) -> SlotCache:
    step = fast_step(model)
    assert step is not None
    assert step.start is not None
    return step.start(src_ids, src_lengths)


def of_row(cache, row):
    """The keys and values of a source, in each layer."""
    memory = cache.memory
    seen = slice(int(memory.starts[row]), int(memory.starts[row] + memory.lengths[row]))
    return [part[seen] for layer in memory.layers for part in layer]


@pytest.mark.parametrize("shape", SHAPES)
def test_it_starts_as_the_model_does(shape):
    model = translator(**shape)
    cache = started(model, *sources())
    with torch.no_grad():
        plain = model.start(model.encode(*sources()))
    assert cache.length == 0
    for row, length in enumerate(
        attended_lengths(torch.tensor(LENGTHS), source_end=model.config.source_end).tolist()
    ):
        expected = [
            part[row, :, :length].transpose(0, 1).flatten(1) for layer in plain.memories for part in layer
        ]
        for found, other in zip(of_row(cache, row), expected, strict=True):
            assert found.shape == other.shape
            assert (found - other).abs().max() < 1e-5 * other.abs().max()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_source_has_the_same_bits_alone_and_in_a_batch(shape):
    model = translator(**shape)
    ids, lengths = sources()
    whole = started(model, ids, lengths)
    for row, length in enumerate(LENGTHS):
        alone = started(model, ids[[row], :length], lengths[[row]])
        assert all(torch.equal(*pair) for pair in zip(of_row(alone, 0), of_row(whole, row), strict=True))
    order = torch.tensor([4, 1, 1, 0])
    others = started(model, ids[order], lengths[order])
    for place, row in enumerate(order.tolist()):
        assert all(torch.equal(*pair) for pair in zip(of_row(others, place), of_row(whole, row), strict=True))


@pytest.mark.parametrize("activation", list(get_args(Activation)))
@pytest.mark.parametrize("d_ff", [48, 50, 64])
def test_no_activation_knows_where_a_row_stands(activation, d_ff):
    """PyTorch's compute the last few numbers of a tensor, whatever they are of, in another way."""
    model = translator(activation=activation, d_ff=d_ff)
    ids, lengths = sources()
    whole = started(model, ids, lengths)
    for row, length in enumerate(LENGTHS):
        alone = started(model, ids[[row], :length], lengths[[row]])
        assert all(torch.equal(*pair) for pair in zip(of_row(alone, 0), of_row(whole, row), strict=True))


def test_what_is_read_in_the_padding_changes_nothing():
    model = translator(positions="rotary")
    ids, lengths = sources()
    whole = started(model, ids, lengths)
    others = started(model, ids.masked_fill(torch.arange(33) >= lengths[:, None], 7), lengths)
    for row in range(len(LENGTHS)):
        assert all(torch.equal(*pair) for pair in zip(of_row(others, row), of_row(whole, row), strict=True))


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_go_on_as_those_of_the_model(shape):
    model = translator(**shape)
    step = fast_step(model)
    assert step is not None
    with torch.no_grad():
        cache, plain = started(model, *sources()), model.start(model.encode(*sources()))
        rows = torch.tensor([1, 0, 4, 4, 2])
        cache, plain = cache.select(rows), plain.select(rows)
        for number in range(4, 9):
            ids = torch.full((5,), number)
            expected = model.extend(ids[:, None], plain)[:, -1]
            assert (step(ids, cache) - expected).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.parametrize("positions", ["alibi", "t5"])
def test_an_encoder_that_it_does_not_know_it_leaves_to_the_model(positions):
    assert fast_step(translator(positions=positions)) is None
