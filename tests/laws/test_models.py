"""What every model that turns one sequence into another keeps to, attention or recurrence, and whatever
its norms, positions, heads and ties."""

import copy

import pytest
import torch

from regard.layers.masks import padding_mask
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.sequence_to_sequence import SequenceToSequence
from tests.nightly import models_but
from tests.simulated_device import moved

VOCAB = 30
SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32, "num_encoder_layers": 2, "num_decoder_layers": 2}
VARIANTS = {
    "paper": {},
    "pre, learned, target tied": {"norm_position": "pre", "positions": "learned", "tied": "target"},
    "sandwich, rms, alibi, gelu": {
        "norm_position": "sandwich",
        "norm": "rms",
        "positions": "alibi",
        "activation": "gelu",
    },
    "t5, rms, pre, untied": {"norm_position": "pre", "norm": "rms", "positions": "t5", "tied": "none"},
    "rotary, swiglu, grouped": {"positions": "rotary", "activation": "swiglu", "num_kv_heads": 2},
    "no bias, qk-norm": {"bias": False, "qk_norm": True},
    "one head for all, deep encoder": {"num_kv_heads": 1, "num_encoder_layers": 3, "num_decoder_layers": 1},
}
NARROW = {"d_model": 16, "d_embedding": 12}
RECURRENT = {
    "rnn": {"preset": "rnn"},
    "rnn, two layers of two directions of lstm": {"cell": "lstm", "num_layers": 2, "bidirectional": True},
    "bahdanau": {"preset": "bahdanau"},
    "bahdanau, two layers of lstm, tied": {
        "preset": "bahdanau",
        "cell": "lstm",
        "num_layers": 2,
        "tied": "all",
    },
    "luong": {"preset": "luong"},
    "luong, dot, tied target": {"cell": "lstm", "attention": "dot", "tied": "target"},
    "luong, concat, fed, two directions": {
        "attention": "concat",
        "input_feeding": True,
        "bidirectional": True,
    },
}
CONFIGS = {
    **{name: (EncoderDecoderConfig, {**SMALL, **table}) for name, table in VARIANTS.items()},
    **{name: (RecurrentConfig, {**NARROW, **table}) for name, table in RECURRENT.items()},
}
FIRST = (  # for tests that take long: kinds of positions and of recurrence; the others nightly
    "paper",
    "t5, rms, pre, untied",
    "rotary, swiglu, grouped",
    "rnn",
    "luong, concat, fed, two directions",
)
in_short = models_but(CONFIGS, FIRST)
SRC = torch.tensor([[4, 9, 17, 25, 6, 3], [8, 8, 29, 3, 0, 0], [5, 3, 0, 0, 0, 0], [11, 12, 13, 14, 3, 0]])
LENGTHS = torch.tensor([6, 4, 2, 5])
TGT = torch.tensor([[2, 7, 19, 4, 23], [2, 28, 28, 5, 0], [2, 6, 0, 0, 0], [2, 10, 11, 12, 13]])
CLOSE = {"atol": 2e-5, "rtol": 1e-5}
ON_DEVICE = ("SRC", "LENGTHS", "TGT")


@pytest.fixture(params=CONFIGS.values(), ids=CONFIGS)
def model(request, device) -> SequenceToSequence:
    """In evaluation, and shaken: biases of zero and gains of one would hide mistakes."""
    kind, table = request.param
    model = build_model(kind.from_table(table, src_vocab_size=VOCAB, tgt_vocab_size=VOCAB), seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return moved(model.eval(), device)


def built(config, seed):
    """A new model on the device of the inputs."""
    return moved(build_model(config, seed=seed), SRC.device)


def test_the_future_does_not_reach_back(model):
    """To the bit, and one step at a time."""
    before = model(SRC, LENGTHS, TGT)
    for t in range(1, TGT.size(1)):
        changed = TGT.clone()
        changed[:, t:] = 15
        after = model(SRC, LENGTHS, changed)
        assert torch.equal(after[:, :t], before[:, :t])
        assert (after[:, t:] != before[:, t:]).any(dim=-1).all()


def test_a_target_sees_all_of_its_past_and_all_of_its_source(model):
    before = model(SRC, LENGTHS, TGT)
    for t in range(TGT.size(1)):
        changed = TGT.clone()
        changed[0, t] = 16
        assert (model(SRC, LENGTHS, changed)[0, t:] != before[0, t:]).any(dim=-1).all()
    for s in range(SRC.size(1)):
        changed = SRC.clone()
        changed[0, s] = 16
        assert (model(changed, LENGTHS, TGT)[0] != before[0]).any(dim=-1).all()


def test_padding_has_no_influence(model):
    """Not in the encoder, and not through the cross-attention, as in the notebooks that gave it no mask."""
    padding = ~padding_mask(LENGTHS, SRC.size(1))[:, 0, 0]
    assert torch.equal(model(SRC.masked_fill(padding, 21), LENGTHS, TGT), model(SRC, LENGTHS, TGT))


def test_more_padding_changes_nothing(model):
    wider = torch.cat([SRC, SRC.new_zeros(4, 11)], dim=1)
    longer = torch.cat([TGT, TGT.new_zeros(4, 3)], dim=1)
    torch.testing.assert_close(
        model(wider, LENGTHS, longer)[:, : TGT.size(1)], model(SRC, LENGTHS, TGT), **CLOSE
    )


def test_the_neighbours_do_not_matter(model):
    together = model(SRC, LENGTHS, TGT)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(SRC[[row], :length], LENGTHS[[row]], TGT[[row]])
        torch.testing.assert_close(alone[0], together[row], **CLOSE)


def test_an_empty_source_gives_finite_numbers_and_finite_gradients(model):
    logits = model(SRC, LENGTHS * LENGTHS.new_tensor([1, 0, 1, 0]), TGT)
    assert logits.isfinite().all()
    logits.logsumexp(-1).sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_extending_a_cache_gives_what_decoding_at_once_gives(model):
    with torch.inference_mode():
        memory = model.encode(SRC, LENGTHS)
        at_once = model.decode(TGT, memory)
        for chunks in ([1, 1, 1, 1, 1], [5], [2, 3], [1, 3, 1]):
            cache = model.start(memory)
            found = torch.cat([model.extend(part, cache) for part in TGT.split(chunks, dim=1)], dim=1)
            assert cache.length == TGT.size(1)
            torch.testing.assert_close(found, at_once, **CLOSE, msg=lambda text, at=chunks: f"{at}: {text}")


def test_rows_can_leave_double_and_change_places_between_steps(model):
    for rows in ([3, 1], [0, 0, 1, 1, 2, 2, 3, 3], [2, 0, 1, 3], [1], [3, 3, 0]):
        assert_rows_can_change(model, SRC.new_tensor(rows))


def assert_rows_can_change(model, rows):
    with torch.inference_mode():
        cache = model.start(model.encode(SRC, LENGTHS))
        model.extend(TGT[:, :2], cache)
        found = [model.extend(TGT[rows, 2:3], cache.select(rows))]
        again = torch.arange(len(rows), device=SRC.device).flip(0)
        found.append(model.extend(TGT[rows[again], 3:4], cache.select(again)))
        expected = model(SRC[rows], LENGTHS[rows], TGT[rows])
    torch.testing.assert_close(found[0], expected[:, 2:3], **CLOSE)
    torch.testing.assert_close(found[1], expected[again, 3:4], **CLOSE)


def test_a_memory_can_be_selected_from(model):
    rows = SRC.new_tensor([2, 0, 0])
    memory = model.encode(SRC, LENGTHS)
    selected = model.decode(TGT[rows], memory.select(rows))
    torch.testing.assert_close(selected, model.decode(TGT, memory)[rows], **CLOSE)


def test_forward_is_encode_decoder_states_project(model):
    """A notebook's `decode` left out the last layer, so that it gave what `forward` did not."""
    memory = model.encode(SRC, LENGTHS)
    logits = model(SRC, LENGTHS, TGT)
    assert torch.equal(model.decode(TGT, memory), logits)
    assert torch.equal(model.project(model.decoder_states(TGT, memory)), logits)


def test_logits_leave_the_model(model):
    """A notebook gave probabilities to a cross-entropy: two softmaxes, and a loss that stays above 1.46."""
    logits = model(SRC, LENGTHS, TGT)
    assert logits.shape == (4, 5, VOCAB)
    assert (logits < 0).any()
    assert (logits.exp().sum(-1) - 1).abs().min() > 1e-3


def test_gradients_reach_every_parameter(model):
    """All but the biases of keys, which move all the scores of a query alike; unless keys are turned."""
    logits = model(SRC, LENGTHS, TGT)
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), TGT[:, 1:].flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        gradient = parameter.grad
        if name.endswith("key.bias"):
            assert gradient.abs().max() < 1e-6, name
        elif getattr(model.config, "positions", None) == "rotary":
            assert gradient.any(), name
        elif name.endswith("query_key_value.bias"):
            keys = model.config.d_head * (model.config.num_kv_heads or model.config.num_heads)
            query, key, value = gradient.split([model.config.d_model, keys, keys])
            assert key.abs().max() < 1e-6, name
            assert query.any(), name
            assert value.any(), name
        else:
            assert gradient.any(), name


@in_short
def test_a_loss_can_be_learned_away(model):
    """Six examples by heart: whatever keeps a variant from learning shows here."""
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(120):
        logits = model(SRC, LENGTHS, TGT[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), TGT[:, 1:].flatten(), ignore_index=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            return
    pytest.fail(f"the loss is still {loss.item():.2f}")


def dropouts(model):
    """The settings that are rates of dropout."""
    return [name for name in model.config.to_dict() if name.endswith("dropout")]


def test_evaluation_turns_every_dropout_off(model):
    model = built(type(model.config)(**model.config.to_dict() | dict.fromkeys(dropouts(model), 0.5)), seed=0)
    assert not torch.equal(model(SRC, LENGTHS, TGT), model(SRC, LENGTHS, TGT))
    model.eval()
    assert torch.equal(model(SRC, LENGTHS, TGT), model(SRC, LENGTHS, TGT))


@in_short
def test_each_dropout_acts_in_training_alone(model):
    off = dict.fromkeys(dropouts(model), 0.0)
    silent = built(type(model.config)(**{**model.config.to_dict(), **off}), seed=0)
    torch.testing.assert_close(silent(SRC, LENGTHS, TGT), silent.eval()(SRC, LENGTHS, TGT))
    for where in off:
        loud = built(type(model.config)(**{**model.config.to_dict(), **off, where: 0.5}), seed=0)
        assert not torch.allclose(loud(SRC, LENGTHS, TGT), silent(SRC, LENGTHS, TGT))
        assert torch.equal(loud.eval()(SRC, LENGTHS, TGT), silent(SRC, LENGTHS, TGT))


def test_a_copy_is_whole_and_apart(model):
    twin = copy.deepcopy(model)
    assert torch.equal(twin(SRC, LENGTHS, TGT), model(SRC, LENGTHS, TGT))
    assert len(list(twin.parameters())) == len(list(model.parameters()))  # what was tied is tied
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert all(parameter.any() for parameter in model.parameters())


def test_a_state_dict_carries_everything(model):
    other = built(model.config, seed=7).eval()
    assert not torch.allclose(other(SRC, LENGTHS, TGT), model(SRC, LENGTHS, TGT))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(SRC, LENGTHS, TGT), model(SRC, LENGTHS, TGT))


@in_short
def test_a_model_runs_on_the_device_it_is_on(model):
    """Notebooks named "cuda", or made positions on the CPU; "meta" refuses tensors from elsewhere."""
    model.to("meta")
    src_ids, lengths, tgt_ids = (tensor.to("meta") for tensor in (SRC, LENGTHS, TGT))
    assert model(src_ids, lengths, tgt_ids).device.type == "meta"
    cache = model.start(model.encode(src_ids, lengths))
    assert model.extend(tgt_ids[:, :1], cache).device.type == "meta"
    assert model.extend(tgt_ids[:, 1:], cache).device.type == "meta"


@in_short
def test_sequences_longer_than_any_table_are_read(model):
    if model.max_length is not None:
        with pytest.raises(ValueError, match="max_positions"):
            model(SRC.new_full((1, 1100), 5), SRC.new_tensor([1100]), TGT[:1])
        return
    ids = torch.randint(4, VOCAB, (1, 1100), generator=torch.Generator().manual_seed(0)).to(SRC.device)
    with torch.inference_mode():
        assert model(ids, SRC.new_tensor([1100]), ids[:, :1050]).isfinite().all()


def test_half_precision_gives_nearly_the_same(model):
    with torch.no_grad():
        exact = model(SRC, LENGTHS, TGT)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = model(SRC, LENGTHS, TGT)
    assert (half - exact).abs().mean() < 0.05 * exact.square().mean().sqrt()
