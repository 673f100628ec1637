"""Training on pairs without padding gives the states and gradients of padded batches.

A plain function stands for the attention kernel, which tests/fast/test_gpu_training.py tests.
"""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from regard.data.batch import IGNORED
from regard.data.packed_pairs import packed_pairs
from regard.fast import fusible, gpu_training, packed_training
from regard.fast.packed_rows import Sequences
from regard.fast.packed_training import has_packed_states, packed_states
from regard.fast.supported import is_known_in_training
from regard.fast.training import fused
from regard.layers.attention import MultiHeadAttention
from regard.layers.block import PostNorm
from regard.layers.masks import causal_mask
from regard.layers.positions import RotaryPositions
from regard.layers.scaled_dot_product import plain_attention
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from tests.data.test_packed_pairs import PAD, batch_of

SIZES = {"d_model": 64, "num_heads": 4, "d_ff": 96, "num_encoder_layers": 2, "num_decoder_layers": 2}
LENGTHS = [(5, 9), (0, 3), (12, 0), (30, 2), (7, 7)]


def attention_of_sequences(query, key, value, bounds, key_bounds, longest, dropout, *, is_causal):
    """Each sequence by itself, by the formula."""
    out = torch.full_like(query, float("nan"))
    for row in range(len(bounds) - 1):
        target, source = (slice(*each[row : row + 2]) for each in (bounds, key_bounds))
        rows = query[:, :, target], key[:, :, source], value[:, :, source]
        assert max(rows[0].size(2), rows[1].size(2)) <= longest
        mask = causal_mask(rows[0].size(2), device=query.device) if is_causal else None
        out[:, :, target] = plain_attention(*rows, mask, dropout=dropout)
    assert out.isfinite().all(), "every position belongs to a row"
    return out


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    """A CPU that is taken for a GPU, with no kernel but the one for packed rows."""
    monkeypatch.setattr(fusible, "GPUS", ("cpu",))
    monkeypatch.setattr(fusible, "has_triton", lambda: False)
    monkeypatch.setattr(gpu_training, "attention_of_sequences", attention_of_sequences)
    monkeypatch.setattr(packed_training, "has_attention_of_sequences", lambda *_: True)


def model_of(**table):
    sizes = {"src_vocab_size": 90, "tgt_vocab_size": 90, **SIZES}
    config = EncoderDecoderConfig(**{**sizes, "dropout": 0.0, **table})
    return build_model(config, seed=0).train()


def packed(batch):
    return packed_pairs(
        batch.src_ids, batch.src_lengths, batch.tgt_ids, batch.tgt_lengths,
        pad_id=PAD, ignored=IGNORED, longest=128,
    )  # fmt: skip


def is_packed(model):
    return is_known_in_training(model) and has_packed_states(model, 64, 32)


def states_of(model, batch):
    found = packed(batch)
    assert found is not None
    source, target = (
        Sequences(each.positions, each.bounds, found.sizes.longest) for each in (found.source, found.target)
    )
    states = packed_states(model, found.source.ids, source, found.target.ids, target)
    return states[: int((batch.tgt_lengths - 1).sum())]


def padded_states(model, batch):
    return model.decoder_states(batch.tgt_input, model.encode(batch.src_ids, batch.src_lengths))


TABLES = [
    {},
    {"norm_position": "pre", "activation": "gelu", "positions": "learned", "max_positions": 64},
    {"norm_position": "pre", "norm": "rms", "positions": "rotary", "activation": "swiglu"},
    {"norm_position": "sandwich", "norm": "rms", "positions": "rotary", "qk_norm": True},
    {"norm_position": "reordered", "positions": "none", "tied": "all", "embedding_norm": True},
    {"attention_scale": 0.4, "head_dim": 32, "scaled_output": True, "scaled_embedding": False},
]


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_states_and_gradients_are_those_of_the_padded_batch(table):
    model, batch = model_of(**table), batch_of(LENGTHS)
    real = torch.arange(batch.tgt_input.size(1)) < (batch.tgt_lengths - 1)[:, None]
    found = []
    with fused(model):
        assert is_packed(model)
        for compute in (lambda: padded_states(model, batch)[real], lambda: states_of(model, batch)):
            model.zero_grad()
            states = compute()
            torch.manual_seed(1)
            (states * torch.randn(states.shape)).sum().backward()
            slopes = [weight.grad for weight in model.parameters() if weight.grad is not None]
            found.append([states.detach(), *slopes])
    largest = max(each.abs().max() for each in found[0])
    for one, other in zip(*found, strict=True):
        scale = one.abs().max() + largest / 100  # biases of keys have no gradient but rounding
        torch.testing.assert_close(other / scale, one / scale, atol=1e-5, rtol=0)


def not_packed():
    yield "alibi", {"positions": "alibi"}
    yield "t5", {"positions": "t5"}
    yield "grouped heads", {"num_kv_heads": 2}
    yield "sources without their end", {"source_end": False}
    yield "few positions", {"positions": "learned", "max_positions": 16}


@pytest.mark.parametrize(("_", "table"), [*not_packed()])
def test_other_models_stay_padded(_, table):
    with fused(model := model_of(**table)):
        assert not is_packed(model)


def test_other_kinds_of_models_stay_padded():
    config = DecoderOnlyConfig(vocab_size=90, d_model=64, num_heads=4, d_ff=96, num_layers=1)
    with fused(model := build_model(config, seed=0).train()):
        assert not is_packed(model)


def changes():
    yield "evaluation", lambda model: model.eval()
    yield "a hook", lambda model: model.encoder.norm.register_forward_hook(lambda *_: None)
    yield "another attention", lambda model: setattr(attention_of(model), "attend", plain_attention)
    yield "another method", lambda model: setattr(model.decoder.blocks[0], "forward", lambda x, *_: x)
    yield "a subclass", lambda model: setattr(model.decoder, "norm", type("Mine", (nn.LayerNorm,), {})(64))
    yield "a compiled block", lambda model: model.encoder.blocks[0].compile()
    yield (
        "an attention of both stacks",
        lambda model: setattr(
            model.encoder.blocks[0], "self_attention", model.decoder.blocks[0].self_attention
        ),
    )
    yield (
        "a weight by a formula",
        lambda model: parametrize.register_parametrization(
            model.encoder.blocks[0].feed_forward.inner, "weight", nn.Identity()
        ),
    )
    yield "another dropout", lambda model: setattr(model.decoder.input, "dropout", nn.Dropout1d(0.1))


def test_rotary_positions_that_are_not_fused_stay_padded():
    model = model_of(positions="rotary")
    with fused(model):
        assert is_packed(model)
        model.encoder.blocks[1].self_attention.rotary = RotaryPositions(16)
        assert not is_packed(model)


def test_a_patched_class_stays_padded(monkeypatch):
    with fused(model := model_of()):
        monkeypatch.setattr(PostNorm, "forward", lambda self, x, sublayer: x)
        assert not is_packed(model)


def attention_of(model):
    return next(each for each in model.modules() if isinstance(each, MultiHeadAttention))


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated")  # torch.compile's own
@pytest.mark.parametrize(("_", "change"), [*changes()])
def test_changed_models_stay_padded(_, change):
    model = model_of()
    with fused(model):
        change(model)
        assert not is_packed(model)
    assert not is_packed(model_of()), "it has no fused forms"
