"""What the conformer keeps to: padding and neighbours do not matter, gradients arrive, sizes, refusals."""

import copy

import pytest
import torch
import torch.nn.functional as F

from regard.errors import ConfigError
from regard.models.build import build_model, count_parameters
from regard.models.conformer import Conformer, ConformerConfig

SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32, "num_layers": 2, "kernel_size": 5}
VARIANTS = {
    "paper": {},
    "stacked by three": {"subsampling": "stacked", "subsampling_factor": 3},
    "every frame, rms, swiglu": {
        "subsampling": "stacked",
        "subsampling_factor": 1,
        "norm": "rms",
        "activation": "swiglu",
    },
    "rotary, halved": {"relative_positions": False, "positions": "rotary", "subsampling_factor": 2},
    "t5, grouped": {"relative_positions": False, "positions": "t5", "num_kv_heads": 2},
    "alibi, no biases": {"relative_positions": False, "positions": "alibi", "bias": False},
    "relative, grouped, keys normed": {"num_kv_heads": 1, "qk_norm": True},
}
FRAMES = torch.randn(3, 21, 6, generator=torch.Generator().manual_seed(0))
LENGTHS = torch.tensor([21, 10, 5])


def config(**table: object) -> ConformerConfig:
    return ConformerConfig.from_table({**SMALL, **table}, num_features=6, num_labels=7)


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def model(request) -> Conformer:
    """In evaluation, and shaken: biases of zero and gains of one would hide mistakes."""
    model = build_model(config(**request.param), seed=0)
    assert isinstance(model, Conformer)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def real(model: Conformer, found: torch.Tensor) -> torch.Tensor:
    """What comes of frames, row by row, without what comes of padding."""
    return torch.cat([row[:length] for row, length in zip(found, model.subsampled(LENGTHS), strict=True)])


def test_each_position_has_logits(model):
    found = model(FRAMES, LENGTHS)
    assert found.shape == (3, int(model.subsampled(torch.tensor([21]))), 7)
    assert (found.exp().sum(-1) - 1).abs().min() > 1e-3


def test_padding_has_no_influence(model):
    dirty = FRAMES.clone()
    dirty[1, 10:], dirty[2, 5:] = 1e4, torch.nan
    assert torch.equal(real(model, model(dirty, LENGTHS)), real(model, model(FRAMES, LENGTHS)))


def test_more_padding_changes_nothing(model):
    wider = torch.cat([FRAMES, torch.zeros(3, 14, 6)], dim=1)
    torch.testing.assert_close(
        real(model, model(wider, LENGTHS)), real(model, model(FRAMES, LENGTHS)), atol=1e-5, rtol=1e-5
    )


def test_the_neighbours_do_not_matter(model):
    together = model(FRAMES, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = model(FRAMES[[row], :length], LENGTHS[[row]])[0]
        torch.testing.assert_close(alone, together[row, : len(alone)], atol=1e-5, rtol=1e-5)


def test_every_frame_reaches_every_position(model):
    before = model(FRAMES[:1], LENGTHS[:1])
    for frame in range(21):
        changed = FRAMES[:1].clone()
        changed[0, frame] += 1
        assert (model(changed, LENGTHS[:1]) != before).any(dim=-1).all()


def test_order_matters(model):
    turned = model(FRAMES[:1].flip(1), LENGTHS[:1]).flip(1)
    assert not torch.allclose(turned, model(FRAMES[:1], LENGTHS[:1]), atol=1e-3)


def test_gradients_reach_every_parameter(model):
    """All but the biases of keys, which move all the scores of a query alike; unless keys are changed."""
    logits = real(model, model(FRAMES, LENGTHS))
    F.cross_entropy(logits, torch.arange(len(logits)) % 7).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if name.endswith("query_key_value.bias") and not (
            model.config.qk_norm or model.config.positions == "rotary"
        ):
            keys = model.config.d_head * (model.config.num_kv_heads or model.config.num_heads)
            query, key, value = parameter.grad.split([model.config.d_model, keys, keys])
            assert key.abs().max() < 1e-6, name
            assert query.any(), name
            assert value.any(), name
        else:
            assert parameter.grad.any(), name


def test_a_loss_can_be_learned_away(model):
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    labels, loss = torch.tensor([[1, 2, 2], [3, 4, 0], [5, 0, 0]]), torch.zeros(())
    for _ in range(60):
        log_probs = model(FRAMES, LENGTHS).log_softmax(-1).transpose(0, 1)
        loss = F.ctc_loss(log_probs, labels, model.subsampled(LENGTHS), torch.tensor([3, 2, 1]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            return
    pytest.fail(f"the loss is still {loss.item():.2f}")


def test_evaluation_turns_every_dropout_off(model):
    rates = {"attention_dropout": 0.5, "activation_dropout": 0.5, "dropout": 0.5}
    model = build_model(ConformerConfig(**{**model.config.to_dict(), **rates}), seed=0)
    assert not torch.equal(model(FRAMES, LENGTHS), model(FRAMES, LENGTHS))
    model.eval()
    assert torch.equal(model(FRAMES, LENGTHS), model(FRAMES, LENGTHS))


def test_a_state_dict_carries_everything(model):
    other = build_model(model.config, seed=7).eval()
    assert not torch.allclose(other(FRAMES, LENGTHS), model(FRAMES, LENGTHS))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(FRAMES, LENGTHS), model(FRAMES, LENGTHS))


def test_a_copy_is_whole_and_apart(model):
    twin = copy.deepcopy(model)
    assert torch.equal(twin(FRAMES, LENGTHS), model(FRAMES, LENGTHS))
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert all(parameter.any() for parameter in model.parameters())


def test_a_model_runs_on_the_device_it_is_on(model):
    model.to("meta")
    assert model(FRAMES.to("meta"), LENGTHS.to("meta")).device.type == "meta"


def test_long_sequences_are_read(model):
    with torch.inference_mode():
        assert model(torch.randn(1, 2100, 6), torch.tensor([2100])).isfinite().all()


def test_a_seed_makes_a_model(model):
    first, second, other = (build_model(model.config, seed=seed) for seed in (3, 3, 4))
    for name, weights in first.state_dict().items():
        assert torch.equal(weights, second.state_dict()[name])
        if weights.ndim > 1:
            assert not torch.equal(weights, other.state_dict()[name])


def test_no_statistics_of_a_batch_are_kept(model):
    """The paper's batch normalisation would make an output depend on the rest of the batch."""
    assert not [name for name, _ in model.named_buffers() if "running" in name]


def counted(d: int, ff: int, layers: int, kernel: int) -> int:
    """By hand, for 80 features and 32 labels, of which two convolutions make 20 x d."""
    feed_forward = 2 * (d * ff + ff + ff * d + d)
    attention = 4 * (d * d + d) + d * d + 2 * d  # query, key, value, output; W of distances; u and v
    convolution = (2 * d * d + 2 * d) + (d * kernel + d) + 2 * d + (d * d + d)
    subsampling = (9 * d + d) + (9 * d * d + d) + (20 * d * d + d)
    return subsampling + layers * (feed_forward + attention + convolution + 5 * 2 * d) + 32 * d + 32


@pytest.mark.parametrize(
    ("preset", "sizes", "published"),
    [
        # Gulati et al. 2020, table 1: with a decoder of one LSTM layer, which is not here
        ("conformer-s", (144, 576, 16, 31), 10.3e6),
        ("conformer-m", (256, 1024, 16, 31), 30.7e6),
        ("conformer-l", (512, 2048, 17, 31), 118.8e6),
    ],
)
def test_presets_have_their_sizes(preset, sizes, published):
    with torch.device("meta"):
        model = Conformer(ConformerConfig.from_table({"preset": preset}, num_features=80, num_labels=32))
    assert count_parameters(model) == counted(*sizes)
    assert 0.8 * published < counted(*sizes) < published


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"kernel_size": 4}, "kernel_size = 4 is even"),
        ({"kernel_size": 0}, "kernel_size = 0 is too small"),
        ({"subsampling_factor": 3}, "subsampling_factor = 3 is not a power of 2"),
        ({"subsampling_factor": 1}, "not a power of 2"),
        ({"norm_position": "post"}, "norm_position = 'post'"),
        ({"positions": "rotary"}, "together with relative_positions"),
        ({"relative_positions": False, "positions": "learned"}, "need embeddings"),
        ({"num_labels": 3}, "cannot be set in a recipe"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(setting, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        config(**setting)
    assert refusal.value.hint


def test_a_blank_alone_is_refused():
    with pytest.raises(ConfigError, match="num_labels = 1"):
        ConformerConfig(num_features=6, num_labels=1)
