"""Training on pairs without padding gives the states and gradients of padded batches.

A plain function stands for the attention kernel, which tests/fast/test_gpu_training.py tests.
"""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from regard.data.batch import IGNORED
from regard.data.packed_pairs import packed_pairs
from regard.data.process_share import EmptyShare
from regard.distributed.replicated import ReplicatedModel
from regard.errors import UserError
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
from regard.training import gradients as gradients_file
from regard.training import packed_loss
from regard.training.gradients import Gradients
from regard.training.objective import CrossEntropy
from regard.training.prefetch import prepared_for_gpu
from regard.training.share_objective import ShareObjective
from tests.data.test_packed_pairs import PAD, batch_of

CPU = torch.device("cpu")
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
    config = EncoderDecoderConfig(src_vocab_size=90, tgt_vocab_size=90, **{**SIZES, "dropout": 0.0, **table})
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


@pytest.fixture
def computed(monkeypatch):
    """Gradients on a CPU that is taken for a GPU, and how many passes had no padding."""
    counts, usual = [], Gradients._packed_pass_of
    monkeypatch.setattr(gradients_file, "is_asynchronous", lambda device: True)
    monkeypatch.setattr(packed_loss, "has_loss_of", lambda _: True)
    monkeypatch.setattr(packed_loss, "linear_cross_entropy", counted_loss)
    monkeypatch.setattr(
        Gradients, "_packed_pass_of", lambda self, packed: (counts.append(1), usual(self, packed))[1]
    )

    def compute(model, batch, objective=None):
        counts.clear()
        objective = objective or CrossEntropy(smoothing=0.1, pad_id=PAD)
        model.zero_grad()
        with fused(model):
            gradients = Gradients(ReplicatedModel(model), objective, CPU, "float32")
            sums = gradients.compute([batch], model.zero_grad)
        return sums, [weight.grad.clone() for weight in model.parameters()], len(counts)

    return compute


def counted_loss(states, output, labels, smoothing):
    """The loss of labels that are not IGNORED, as the kernel computes it."""
    logits = output(states)
    return tuple(
        nn.functional.cross_entropy(
            logits, labels, reduction="sum", label_smoothing=each, ignore_index=IGNORED
        )
        for each in (smoothing, 0.0)
    )


def test_an_update_is_that_of_the_padded_batch(computed):
    model, batch = model_of(), prepared_for_gpu(batch_of(LENGTHS), PAD)
    sums, found, count = computed(model, batch)
    expected_sums, expected, none = computed(model, replace(batch, packed=None))
    assert (count, none) == (1, 0)
    assert sums[1:].tolist() == expected_sums[1:].tolist()
    torch.testing.assert_close(sums, expected_sums)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-3)


def test_a_batch_or_an_objective_that_cannot_be_packed_is_padded(computed, monkeypatch):
    class Mine:
        ignored = PAD

        def __call__(self, model, batch):
            return own(CrossEntropy(pad_id=PAD), model, batch)

    own = CrossEntropy.__call__

    batch = prepared_for_gpu(batch_of(LENGTHS), PAD)
    assert computed(model_of(positions="alibi"), batch)[2] == 0
    assert computed(model_of(), prepared_for_gpu(batch_of([(200, 3)]), PAD))[2] == 0
    assert computed(model_of(), batch_of(LENGTHS))[2] == 0
    assert computed(model_of(), batch, Mine())[2] == 0
    monkeypatch.setattr(CrossEntropy, "__call__", Mine.__call__)
    assert computed(model_of(), batch)[2] == 0


def test_the_objective_of_a_share_is_packed_unless_the_share_is_empty(computed):
    """As `regard train` has it."""
    batch, objective = prepared_for_gpu(batch_of(LENGTHS), PAD), CrossEntropy(smoothing=0.1, pad_id=PAD)
    sums, found, count = computed(model_of(), batch, ShareObjective(objective))
    expected_sums, expected, _ = computed(model_of(), batch, objective)
    assert count == 1
    assert torch.equal(sums, expected_sums)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    empty_sums, _, none = computed(model_of(), EmptyShare(batch), ShareObjective(objective))
    assert none == 0
    assert empty_sums[:2].tolist() == [0, 0]


def test_a_model_without_trained_weights_is_refused_by_name(computed):
    model, batch = model_of(), prepared_for_gpu(batch_of(LENGTHS), PAD)
    with pytest.raises(UserError, match="has no gradient"):
        computed(model.requires_grad_(False), batch)
