"""What a decoder without a source keeps to, whatever its norms, positions, heads, window and ties."""

import copy

import pytest
import torch

from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnly, DecoderOnlyConfig
from tests.nightly import models_but
from tests.simulated_device import moved

VOCAB = 30
SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32, "num_layers": 2, "dropout": 0.0, "attention_dropout": 0.0}
VARIANTS = {
    "gpt2": {},
    "learned, no bias": {"bias": False},
    "rotary, rms, swiglu, no bias, qk-norm": {
        "positions": "rotary",
        "norm": "rms",
        "activation": "swiglu",
        "bias": False,
        "qk_norm": True,
    },
    "alibi, grouped, relu": {"positions": "alibi", "num_kv_heads": 2, "activation": "relu"},
    "t5, one head for all, untied": {"positions": "t5", "num_kv_heads": 1, "tied": False},
    "sinusoidal, post, scaled": {
        "positions": "sinusoidal",
        "norm_position": "post",
        "scaled_embedding": True,
    },
    "sandwich, qk-norm": {"norm_position": "sandwich", "qk_norm": True},
    "no positions": {"positions": "none"},
    "window": {"window": 3},
    "window, rotary, grouped": {"window": 2, "positions": "rotary", "num_kv_heads": 2},
    "window, alibi": {"window": 4, "positions": "alibi"},
    "window of one, t5": {"window": 1, "positions": "t5"},
    "windows in turn, rotary": {
        "window": 2,
        "layer_types": ["sliding_attention", "full_attention"],
        "positions": "rotary",
        "local_rotary_base": 50.0,
        "num_layers": 3,
    },
    "windows in turn, alibi": {
        "window": 3,
        "layer_types": ["full_attention", "sliding_attention"],
        "positions": "alibi",
    },
    "windows of the last layers": {
        "window": 3,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "num_layers": 3,
    },
    "parallel, rotary in part": {"parallel_residual": "two_norms", "positions": "rotary", "rotary_dim": 2},
    "parallel, one norm, bias of the output": {
        "parallel_residual": "one_norm",
        "output_bias": True,
        "tied": False,
    },
    "soft caps": {"attention_softcap": 2.0, "logit_softcap": 8.0, "norm_position": "sandwich"},
    "reordered, norms of all heads": {
        "norm_position": "reordered",
        "norm": "rms",
        "qk_norm": "all_heads",
        "num_kv_heads": 2,
        "positions": "rotary",
    },
}
FIRST = (  # for tests that take long: kinds of positions, windows and blocks; the others nightly
    "gpt2",
    "rotary, rms, swiglu, no bias, qk-norm",
    "t5, one head for all, untied",
    "sinusoidal, post, scaled",
    "no positions",
    "windows in turn, alibi",
    "parallel, rotary in part",
    "soft caps",
    "reordered, norms of all heads",
)
in_short = models_but(VARIANTS, FIRST)
IDS = torch.tensor([[2, 7, 19, 4, 23, 8, 8, 3], [2, 28, 28, 5, 9, 17, 25, 6], [5, 3, 11, 12, 13, 14, 3, 2]])
CLOSE = {"atol": 2e-5, "rtol": 1e-5}
ON_DEVICE = ("IDS",)


def shaken(config: DecoderOnlyConfig) -> DecoderOnly:
    """In evaluation, and shaken: biases of zero and gains of one would hide mistakes."""
    model = build_model(config, seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def model(request, device) -> DecoderOnly:
    config = DecoderOnlyConfig.from_table({**SMALL, **request.param}, vocab_size=VOCAB)
    return moved(shaken(config), device)


def built(config, seed):
    """A new model on the device of the inputs."""
    return moved(build_model(config, seed=seed), IDS.device)


def sight(model: DecoderOnly) -> int:
    """How far back a position can see: each layer looks one window further."""
    return sum(IDS.size(1) if window is None else window - 1 for window in model.config.windows)


def test_the_future_does_not_reach_back(model):
    """To the bit, and one step at a time."""
    before = model(IDS)
    for t in range(1, IDS.size(1)):
        changed = IDS.clone()
        changed[:, t:] = 15
        after = model(changed)
        assert torch.equal(after[:, :t], before[:, :t])
        assert (after[:, t] != before[:, t]).any(dim=-1).all()


def test_a_position_sees_as_far_back_as_its_window_lets_it(model):
    before = model(IDS)
    for t in range(IDS.size(1)):
        changed = IDS.clone()
        changed[0, t] = 16
        differs = (model(changed)[0] != before[0]).any(dim=-1)
        assert differs[t : t + sight(model) + 1].all()
        assert not differs[t + sight(model) + 1 :].any()


def test_padding_on_the_right_changes_nothing(model):
    padded = torch.cat([IDS, IDS.new_zeros(3, 5)], dim=1)
    torch.testing.assert_close(model(padded)[:, : IDS.size(1)], model(IDS), **CLOSE)


def test_the_neighbours_do_not_matter(model):
    together = model(IDS)
    for row in range(3):
        torch.testing.assert_close(model(IDS[[row]])[0], together[row], **CLOSE)


def test_extending_a_cache_gives_what_reading_at_once_gives(model):
    with torch.inference_mode():
        at_once = model(IDS)
        for chunks in ([1] * 8, [8], [3, 5], [1, 4, 1, 2], [5, 1, 1, 1]):
            cache = model.start()
            found = torch.cat([model.extend(part, cache) for part in IDS.split(chunks, dim=1)], dim=1)
            assert cache.length == IDS.size(1)
            torch.testing.assert_close(found, at_once, **CLOSE, msg=lambda text, at=chunks: f"{at}: {text}")


def test_rows_can_leave_double_and_change_places_between_steps(model):
    for rows in ([2, 1], [0, 0, 1, 1, 2, 2], [2, 0, 1], [1], [2, 2, 0]):
        assert_rows_can_change(model, IDS.new_tensor(rows))


def assert_rows_can_change(model, rows):
    again = torch.arange(len(rows), device=IDS.device).flip(0)
    with torch.inference_mode():
        cache = model.start().select(
            torch.arange(5, device=IDS.device)
        )  # what has read nothing has any number of rows
        model.extend(IDS[:, :5], cache)
        found = [model.extend(IDS[rows, 5:6], cache.select(rows))]
        found.append(model.extend(IDS[rows[again], 6:8], cache.select(again)))
        expected = model(IDS[rows])
    torch.testing.assert_close(found[0], expected[:, 5:6], **CLOSE)
    torch.testing.assert_close(found[1], expected[again, 6:8], **CLOSE)


def test_documents_in_one_row_are_read_as_if_each_were_alone(model):
    """Positions begin at 0 in each document, and documents do not attend to each other; padding is one."""
    lengths = [[3, 1, 4], [8], [1, 5, 2]]
    documents = IDS.new_tensor(
        [[number for number, length in enumerate(row) for _ in range(length)] for row in lengths]
    )
    packed = model(IDS, documents)
    for row, parts in enumerate(lengths):
        for found, ids in zip(packed[row].split(parts), IDS[row].split(parts), strict=True):
            torch.testing.assert_close(found, model(ids[None])[0], **CLOSE)


def test_a_row_may_be_longer_than_the_positions_if_no_document_is():
    config = DecoderOnlyConfig.from_table({**SMALL, "max_positions": 4}, vocab_size=VOCAB)
    model = shaken(config)
    documents = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 2]]).expand(3, -1)
    torch.testing.assert_close(model(IDS, documents)[:, 3:7], model(IDS[:, 3:7]), **CLOSE)
    with pytest.raises(ValueError, match="5 positions, but only max_positions \\(4\\)"):
        model(IDS, torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]]).expand(3, -1))


def test_a_cache_holds_one_document(model):
    with pytest.raises(ValueError, match="one document"):
        model.states(IDS, torch.zeros_like(IDS), model.start())


def test_without_positions_the_past_is_a_set():
    """One layer sees what was there and not where: the order of the past does not matter to the last."""
    model = shaken(
        DecoderOnlyConfig.from_table({**SMALL, "positions": "none", "num_layers": 1}, vocab_size=VOCAB)
    )
    order = IDS.new_tensor([4, 0, 6, 2, 5, 1, 3, 7])
    torch.testing.assert_close(model(IDS[:, order])[:, -1], model(IDS)[:, -1], **CLOSE)
    for positions in ("learned", "sinusoidal", "rotary", "alibi", "t5"):
        model = shaken(
            DecoderOnlyConfig.from_table({**SMALL, "positions": positions, "num_layers": 1}, vocab_size=VOCAB)
        )
        assert not torch.allclose(model(IDS[:, order])[:, -1], model(IDS)[:, -1], atol=1e-3)


def test_logits_leave_the_model(model):
    logits = model(IDS)
    assert logits.shape == (3, 8, VOCAB)
    assert (logits < 0).any()
    assert (logits.exp().sum(-1) - 1).abs().min() > 1e-3


def test_gradients_reach_every_parameter(model):
    """All but the biases of keys, which move all the scores of a query alike; unless keys are changed."""
    torch.nn.functional.cross_entropy(model(IDS)[:, :-1].flatten(0, 1), IDS[:, 1:].flatten()).backward()
    config = model.config
    blind = config.window == 1  # scores of a single key are nothing to learn from
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        gradient = parameter.grad
        if name.endswith(("query_key_value.bias", "query_key_value.weight")):
            keys = config.d_head * (config.num_kv_heads or config.num_heads)
            query, key, value = gradient.split([config.d_model, keys, keys])
            assert value.any(), name
            assert query.abs().max() < 1e-6 if blind else query.any(), name
            turned = config.positions == "rotary" or config.qk_norm or config.attention_softcap
            silent = blind or (name.endswith("bias") and not turned)
            assert key.abs().max() < 1e-6 if silent else key.any(), name
        elif not (blind and "position_bias" in name):
            assert gradient.any(), name


@in_short
def test_a_loss_can_be_learned_away(model):
    """Three texts by heart: whatever keeps a variant from learning shows here."""
    if model.config.window == 1:
        pytest.skip("it cannot tell the two that begin alike apart")
    model = built(model.config, seed=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(120):
        logits = model(IDS[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits[:, 1:].flatten(0, 1), IDS[:, 2:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.15:
            return
    pytest.fail(f"the loss is still {loss.item():.2f}")


@in_short
def test_each_dropout_acts_in_training_alone(model):
    off = {"attention_dropout": 0.0, "activation_dropout": 0.0, "dropout": 0.0}
    silent = built(type(model.config)(**{**model.config.to_dict(), **off}), seed=0)
    torch.testing.assert_close(silent(IDS), silent.eval()(IDS), rtol=1e-5, atol=1e-6)  # other kernels
    for where in off:
        loud = built(type(model.config)(**{**model.config.to_dict(), **off, where: 0.5}), seed=0)
        assert not torch.allclose(loud(IDS), silent(IDS), rtol=1e-3), where
        assert torch.equal(loud.eval()(IDS), silent(IDS)), where


def test_a_copy_is_whole_and_apart(model):
    twin = copy.deepcopy(model)
    assert torch.equal(twin(IDS), model(IDS))
    assert len(list(twin.parameters())) == len(list(model.parameters()))  # what was tied is tied
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert all(parameter.any() for parameter in model.parameters())


def test_a_state_dict_carries_everything(model):
    other = built(model.config, seed=7).eval()
    assert not torch.allclose(other(IDS), model(IDS))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(IDS), model(IDS))


@in_short
def test_a_model_runs_on_the_device_it_is_on(model):
    model.to("meta")
    ids = IDS.to("meta")
    assert model(ids).device.type == "meta"
    assert model(ids, torch.zeros_like(ids)).device.type == "meta"
    cache = model.start()
    assert model.extend(ids[:, :3], cache).device.type == "meta"
    assert model.extend(ids[:, 3:4], cache).device.type == "meta"


@in_short
def test_texts_longer_than_any_table_are_read(model):
    ids = torch.randint(4, VOCAB, (1, 1100), generator=torch.Generator().manual_seed(0)).to(IDS.device)
    if model.max_length is not None:
        with pytest.raises(ValueError, match="max_positions"):
            model(ids)
        return
    with torch.inference_mode():
        at_once = model(ids)
        cache = model.start()
        model.extend(ids[:, :1050], cache)
        torch.testing.assert_close(model.extend(ids[:, 1050:], cache), at_once[:, 1050:], **CLOSE)


def test_half_precision_gives_nearly_the_same(model):
    with torch.no_grad():
        exact = model(IDS)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = model(IDS)
    assert (half - exact).abs().mean() < 0.06 * exact.square().mean().sqrt()
