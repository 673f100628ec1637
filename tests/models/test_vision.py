"""What the vision transformer keeps to: sizes, classes read from one place, positions, batches, gradients."""

import copy
import itertools

import pytest
import torch

from regard.errors import ConfigError
from regard.models.build import build_model, count_parameters
from regard.models.vision import VisionConfig, VisionTransformer

SMALL = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_layers": 2, "patch_size": 3}
VARIANTS = {
    "cls": {},
    "mean": {"pooling": "mean"},
    "post, rms, swiglu": {"norm_position": "post", "norm": "rms", "activation": "swiglu"},
    "without positions": {"positions": "none"},
    "one head of keys": {"num_kv_heads": 1, "pooling": "mean"},
}
IMAGES = torch.randn(4, 2, 9, 9, generator=torch.Generator().manual_seed(0))


def config(**table: object) -> VisionConfig:
    return VisionConfig.from_table({**SMALL, **table}, num_labels=5, image_size=9, channels=2)


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def model(request) -> VisionTransformer:
    """In evaluation, and shaken: biases of zero and gains of one would hide mistakes."""
    model = build_model(config(**request.param), seed=0)
    assert isinstance(model, VisionTransformer)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


@pytest.mark.parametrize(
    ("preset", "sizes", "parameters"),
    [
        # Dosovitskiy et al. 2021, table 1, with the 1,000 classes of ImageNet
        ("vit-base", {"num_labels": 1000}, 86_567_656),
        ("vit-large", {"num_labels": 1000}, 304_326_632),
        ("vit-tiny", {"num_labels": 1000}, 5_717_416),
        ("mnist", {"num_labels": 10, "image_size": 28, "channels": 1}, 139_018),
    ],
)
def test_presets_have_the_sizes_they_are_known_by(preset, sizes, parameters):
    with torch.device("meta"):
        model = VisionTransformer(VisionConfig.from_table({"preset": preset}, **sizes))
    assert count_parameters(model) == parameters


def test_logits_of_each_class_leave_the_model(model):
    logits = model(IMAGES)
    assert logits.shape == (4, 5)
    assert (logits.exp().sum(-1) - 1).abs().min() > 1e-3


def test_the_neighbours_do_not_matter(model):
    together = model(IMAGES)
    for row in range(len(IMAGES)):
        torch.testing.assert_close(model(IMAGES[[row]])[0], together[row], atol=1e-5, rtol=1e-5)


def test_every_pixel_matters(model):
    before = model(IMAGES[:1])
    for channel, row, column in itertools.product(range(2), (0, 4, 8), (0, 4, 8)):
        changed = IMAGES[:1].clone()
        changed[0, channel, row, column] += 1
        assert (model(changed) != before).any()


def test_without_positions_the_order_of_patches_does_not_matter(model):
    """With them it does: the same patches in other places are another image."""
    shuffled = torch.cat([IMAGES[:, :, 6:], IMAGES[:, :, :6]], dim=2)
    same = torch.allclose(model(shuffled), model(IMAGES), atol=1e-5)
    assert same == (model.config.positions == "none")


def test_without_positions_patches_that_change_places_take_their_states_along(model):
    if model.config.positions != "none":
        return
    before, after = model.encode(IMAGES), model.encode(torch.cat([IMAGES[:, :, 6:], IMAGES[:, :, :6]], dim=2))
    torch.testing.assert_close(after[:, 1:], before[:, 1:].roll(3, dims=1), atol=1e-5, rtol=1e-5)


def test_images_of_another_size_are_read(model):
    assert model(torch.randn(2, 2, 12, 6)).shape == (2, 5)
    with pytest.raises(ValueError, match="10 x 10 pixels"):
        model(torch.randn(2, 2, 10, 10))


def test_gradients_reach_every_parameter(model):
    """All but the biases of keys, which move all the scores of a query alike."""
    torch.nn.functional.cross_entropy(model(IMAGES), torch.tensor([0, 1, 2, 3])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if name.endswith("query_key_value.bias"):
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
    loss = torch.zeros(())
    for _ in range(40):
        loss = torch.nn.functional.cross_entropy(model(IMAGES), torch.tensor([0, 1, 2, 3]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1


def test_evaluation_turns_every_dropout_off(model):
    rates = {"attention_dropout": 0.5, "activation_dropout": 0.5, "dropout": 0.5}
    model = build_model(VisionConfig(**{**model.config.to_dict(), **rates}), seed=0)
    assert not torch.equal(model(IMAGES), model(IMAGES))
    model.eval()
    assert torch.equal(model(IMAGES), model(IMAGES))


def test_a_state_dict_carries_everything(model):
    other = build_model(model.config, seed=7).eval()
    assert not torch.allclose(other(IMAGES), model(IMAGES))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(IMAGES), model(IMAGES))


def test_a_copy_is_whole_and_apart(model):
    twin = copy.deepcopy(model)
    assert torch.equal(twin(IMAGES), model(IMAGES))
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert all(parameter.any() for parameter in model.parameters())


def test_a_model_runs_on_the_device_it_is_on(model):
    model.to("meta")
    assert model(IMAGES.to("meta")).device.type == "meta"


def test_a_seed_makes_a_model():
    first, second, other = (build_model(config(), seed=seed) for seed in (3, 3, 4))
    for name, weights in first.state_dict().items():
        assert torch.equal(weights, second.state_dict()[name])
        if weights.ndim == 2:
            assert not torch.equal(weights, other.state_dict()[name])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"patch_size": 4}, "patch_size = 4 does not divide image_size = 9"),
        ({"patch_size": 0}, "patch_size = 0 is too small"),
        ({"positions": "rotary"}, "do not fit a grid"),
        ({"pooling": "max"}, "pooling = 'max' is unknown"),
        ({"num_layers": 0}, "num_layers = 0 is too small"),
        ({"pixel_std": 0.0}, "pixel_std"),
        ({"pixel_std": [0.5, 0.5, 0.0]}, "pixel_std"),
        ({"pixel_mean": [0.5, 0.5, 0.5, 0.5]}, "pixel_mean has 4 numbers for"),
        ({"distillation": "head", "pooling": "mean"}, "distillation = 'head' needs a class token"),
        ({"distillation": "heads"}, "distillation = 'heads' is unknown"),
        ({"image_size": 28}, "cannot be set in a recipe"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(setting, message):
    with pytest.raises(ConfigError, match=message) as refusal:
        config(**setting)
    assert refusal.value.hint
