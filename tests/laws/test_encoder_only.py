"""What every encoder with every head keeps to, whatever its norms, positions and pooling."""

import pytest
import torch

from regard.layers.masks import padding_mask
from regard.models.build import build_model
from regard.models.encoder_only import EncoderOnly, EncoderOnlyConfig
from tests.nightly import each_once

VOCAB = 30
SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32, "num_layers": 2}
SHAPES = {
    "bert": {},
    "modern": {"preset": "modern"},
    "sandwich, alibi, relu, no norm of the embeddings": {
        "norm_position": "sandwich",
        "positions": "alibi",
        "activation": "relu",
        "embedding_norm": False,
        "num_token_types": 0,
    },
    "pre, t5, grouped": {"norm_position": "pre", "positions": "t5", "num_kv_heads": 2},
    "sinusoidal": {"positions": "sinusoidal", "norm": "rms"},
    "narrow embeddings": {"embedding_size": 6},
    "a convolution of the embeddings": {"preset": "modern", "input_convolution": 3},
    "a long convolution of narrow embeddings": {"embedding_size": 6, "input_convolution": 9},
    "windows in turn, no first norm": {
        "norm_position": "pre",
        "positions": "rotary",
        "window": 2,
        "layer_types": ["full_attention", "sliding_attention"],
        "local_rotary_base": 50.0,
        "first_norm": False,
        "activation": "geglu",
        "bias": False,
    },
}
HEADS = {
    "none": {},
    "pooled": {},
    "masked_language_model": {},
    "replaced_tokens": {},
    "classification": {"num_labels": 3},
    "classification, mean": {"num_labels": 3, "pooling": "mean"},
    "classification, max": {"num_labels": 3, "pooling": "max", "pooler": False},
    "classification, a norm": {"num_labels": 3, "head_norm": True, "head_bias": False},
    "tokens": {"num_labels": 5},
    "tokens, a layer and a norm": {"num_labels": 5, "head_norm": True},
    "spans": {},
    "spans, a layer and a norm": {"head_norm": True, "head_bias": False},
    "regression": {"pooling": "mean"},
}
IDS = torch.tensor([[4, 9, 17, 25, 6, 3], [8, 8, 29, 3, 0, 0], [5, 3, 0, 0, 0, 0], [11, 12, 13, 14, 3, 0]])
LENGTHS = torch.tensor([6, 4, 2, 5])
PADDING = ~padding_mask(LENGTHS, IDS.size(1))[:, 0, 0]
BY_TOKEN = ("none", "masked_language_model", "replaced_tokens", "tokens")


def made(shape: dict, head: str, options: dict, seed: int = 0) -> EncoderOnly:
    """In evaluation, and shaken: biases of zero and gains of one would hide mistakes."""
    sizes = {"vocab_size": VOCAB, "head": head.partition(",")[0]}
    model = build_model(EncoderOnlyConfig.from_table({**shape, **SMALL, **options}, **sizes), seed=seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def shape(request) -> dict:
    return request.param


PAIRS = [
    *(("bert", head) for head in HEADS),
    *((shape, head) for shape in SHAPES for head in ("tokens", "classification, mean") if shape != "bert"),
]


@pytest.fixture(params=PAIRS, ids=": ".join)
def model(request) -> EncoderOnly:
    shape, head = request.param
    return made(SHAPES[shape], head, HEADS[head])


def of_real(model, logits):
    """A model's outputs for real tokens; those for padding are arbitrary."""
    if model.config.head == "spans":
        return logits.transpose(1, 2)[:, : IDS.size(1)][~PADDING]
    return logits[:, : IDS.size(1)][~PADDING] if model.config.head in BY_TOKEN else logits


def test_padding_has_no_influence(model):
    filled = model(IDS.masked_fill(PADDING, 21), LENGTHS)
    assert torch.equal(of_real(model, filled), of_real(model, model(IDS, LENGTHS)))


def test_more_padding_changes_nothing(model):
    wider = torch.cat([IDS, torch.zeros(4, 9, dtype=torch.int64)], dim=1)
    found, expected = of_real(model, model(wider, LENGTHS)), of_real(model, model(IDS, LENGTHS))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_the_neighbours_do_not_matter(model):
    together = model(IDS, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        [alone] = model(IDS[[row], :length], LENGTHS[[row]])
        beside = together[row]
        if model.config.head in BY_TOKEN:
            beside = beside[:length]
        elif model.config.head == "spans":
            beside = beside[:, :length]
        torch.testing.assert_close(alone, beside, atol=1e-5, rtol=1e-5)


def test_every_token_sees_every_other(shape):
    model = made(shape, "none", {})
    before = model(IDS, LENGTHS)
    for place in range(IDS.size(1)):
        changed = IDS.clone()
        changed[0, place] = 16
        assert (model(changed, LENGTHS)[0] != before[0]).any(dim=-1).all()


@pytest.mark.parametrize("position", ["learned", "sinusoidal", "rotary", "alibi", "t5"])
def test_with_positions_the_order_of_tokens_matters(position):
    model = made({"positions": position}, "classification", {"num_labels": 3, "pooling": "mean"})
    for order in ([1, 0, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0]):
        other = model(IDS[:1, order], LENGTHS[:1])
        assert not torch.allclose(other, model(IDS[:1], LENGTHS[:1]), atol=1e-5)


@pytest.mark.parametrize("norm_position", ["post", "pre", "sandwich"])
def test_without_positions_permuted_tokens_give_permuted_states(norm_position):
    shape = {"positions": "none", "norm_position": norm_position}
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    states = made(shape, "none", {})
    torch.testing.assert_close(
        states(IDS[:1, order], LENGTHS[:1]), states(IDS[:1], LENGTHS[:1])[:, order], atol=1e-5, rtol=1e-5
    )
    for pooling in ("mean", "max"):
        classes = made(shape, "classification", {"num_labels": 3, "pooling": pooling})
        torch.testing.assert_close(
            classes(IDS[:1, order], LENGTHS[:1]), classes(IDS[:1], LENGTHS[:1]), atol=1e-5, rtol=1e-5
        )


def test_gradients_reach_every_parameter(model):
    """All but the biases of keys, which move all the scores of a query alike; unless keys are turned."""
    types = (IDS % 2) if model.config.num_token_types else None
    logits = model(IDS, LENGTHS, types)
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(2))
    logits.where(logits.isfinite(), 0.0).mul(weights).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_an_empty_text_gives_finite_numbers_and_finite_gradients(model):
    logits = model(IDS, torch.tensor([6, 0, 2, 0]))
    if model.config.head == "spans":
        logits = logits[[0, 2]].where(logits[[0, 2]].isfinite(), 0.0)
    assert logits.isfinite().all()
    logits.square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_a_state_dict_carries_everything(model):
    other = build_model(model.config, seed=7).eval()
    assert not torch.allclose(other(IDS, LENGTHS), model(IDS, LENGTHS))
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(IDS, LENGTHS), model(IDS, LENGTHS))


def test_a_seed_makes_the_weights(model):
    first, again = build_model(model.config, seed=5), build_model(model.config, seed=5)
    assert all(
        torch.equal(one, other) for one, other in zip(first.parameters(), again.parameters(), strict=True)
    )


def test_a_loss_can_be_learned_away(shape):
    model = made(shape, "classification", {"num_labels": 4, "pooling": "mean"}).train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout") and isinstance(module.dropout, float):
            module.dropout = 0.0
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(40):
        loss = torch.nn.functional.cross_entropy(model(IDS, LENGTHS), torch.arange(4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            return
    pytest.fail(f"the loss is still {loss.item():.2f}")


@pytest.mark.parametrize(
    ("name", "where"),
    each_once(list(SHAPES), ["dropout", "attention_dropout", "activation_dropout", "head_dropout"]),
)
def test_each_dropout_acts_in_training_alone(name, where):
    shape = SHAPES[name]
    off = {"attention_dropout": 0.0, "activation_dropout": 0.0, "dropout": 0.0, "head_dropout": 0.0}
    silent = made(shape, "classification", {"num_labels": 3, **off})
    loud = made(shape, "classification", {"num_labels": 3, **off, where: 0.5})
    expected = silent(IDS, LENGTHS)
    torch.testing.assert_close(silent.train()(IDS, LENGTHS), expected, rtol=1e-5, atol=1e-6)  # other kernels
    assert torch.equal(loud(IDS, LENGTHS), expected)
    assert not torch.allclose(loud.train()(IDS, LENGTHS), expected, rtol=1e-3)


def test_a_model_runs_on_the_device_it_is_on(model):
    """ "meta" refuses tensors from elsewhere."""
    model.to("meta")
    places = PADDING.to("meta") if model.config.head == "spans" else None
    assert model(IDS.to("meta"), LENGTHS.to("meta"), None, places).device.type == "meta"


def test_half_precision_gives_nearly_the_same(model):
    with torch.no_grad():
        exact = of_real(model, model(IDS, LENGTHS))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            half = of_real(model, model(IDS, LENGTHS))
    assert (half - exact).abs().mean() < 0.05 * exact.square().mean().sqrt()
