"""A config becomes a model: its size, its first weights, its seed, its ties."""

import math
import subprocess
import sys
from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.layers.attention import SelfAttention
from regard.layers.feedforward import FeedForward
from regard.layers.positions import LearnedPositions
from regard.layers.stacked import StackedLinear
from regard.models.build import build_model, build_uninitialised, count_config_parameters, count_parameters
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoder, EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.registered import (
    ATTENTIONS,
    POSITIONS,
    register_attention,
    register_feed_forward,
    register_norm,
    register_positions,
)

SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32, "num_encoder_layers": 2, "num_decoder_layers": 2}


def size(vocab: int, **table: object) -> int:
    with torch.device("meta"):
        return count_parameters(
            EncoderDecoder(EncoderDecoderConfig.from_table(table, src_vocab_size=vocab, tgt_vocab_size=vocab))
        )


@pytest.mark.parametrize(
    ("preset", "vocab", "parameters", "published"),
    [
        ("base", 37_000, 63_082_496, 65e6),  # Vaswani et al. 2017, table 3
        ("big", 37_000, 214_245_376, 213e6),
        ("tiny", 9_712, 9_712 * 128 + 4 * 132_480 + 4 * 198_784, 2.6e6),  # Wu et al. 2021
        ("medium", 10_000, 36_663_296, 36.7e6),
        ("small", 8_000, 7_577_600, 7.6e6),
    ],
)
def test_presets_have_the_sizes_they_are_known_by(preset, vocab, parameters, published):
    assert size(vocab, preset=preset) == parameters
    assert abs(parameters - published) < 0.035 * published


def test_every_option_has_its_size():
    """Against the paper's model of these widths: what each option adds, counted by hand."""
    paper, d, ff, layers = size(30, **SMALL), 16, 32, 4
    assert size(30, **SMALL, tied="target") - paper == 30 * d
    assert size(30, **SMALL, tied="none") - paper == 2 * 30 * d
    assert size(30, **SMALL, positions="learned", max_positions=50) - paper == 2 * 50 * d
    assert size(30, **SMALL, positions="rotary") == size(30, **SMALL, positions="alibi") == paper
    assert size(30, **SMALL, positions="t5") - paper == 2 * 32 * 4
    assert size(30, **SMALL, norm_position="pre") - paper == 2 * 2 * d  # a last norm for each stack
    norms = 2 * 2 + 2 * 3
    assert size(30, **SMALL, norm_position="sandwich") - paper == norms * 2 * d + 2 * 2 * d
    assert paper - size(30, **SMALL, norm="rms") == norms * d
    assert size(30, **SMALL, activation="swiglu") - paper == layers * (d * ff - ff - d)
    assert paper - size(30, **SMALL, num_kv_heads=1) == 6 * 2 * (d * 12 + 12)
    assert size(30, **{**SMALL, "num_encoder_layers": 3}) - paper == 4 * d * d + 2 * d * ff + 9 * d + ff


def test_a_seed_makes_a_model_and_draws_from_no_other_source():
    config = EncoderDecoderConfig.from_table(SMALL, src_vocab_size=30, tgt_vocab_size=30)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    first, second = build_model(config, seed=3), build_model(config, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(6)
    third, other, drawn = build_model(config, seed=3), build_model(config, seed=4), build_model(config)
    for name, weights in first.state_dict().items():
        assert torch.equal(weights, second.state_dict()[name])
        assert torch.equal(weights, third.state_dict()[name])
        if weights.ndim == 2:
            assert not torch.equal(weights, other.state_dict()[name])
            assert not torch.equal(weights, drawn.state_dict()[name])


@pytest.mark.parametrize("tied", ["all", "target", "none"])
def test_ties_are_one_parameter_under_several_names(tied):
    """A notebook claimed a shared weight and shared none."""
    model = build_model(
        EncoderDecoderConfig.from_table({**SMALL, "tied": tied}, src_vocab_size=30, tgt_vocab_size=30), seed=0
    )
    source, target = model.encoder.input.embedding.weight, model.decoder.input.embedding.weight
    assert (source is target) == (tied == "all")
    assert (model.output.weight is target) == (tied != "none")
    assert model.output.bias is None
    pointers = {
        weights.data_ptr() for name, weights in model.state_dict().items() if weights.shape == (30, 16)
    }
    assert len(pointers) == {"all": 1, "target": 2, "none": 3}[tied]


def test_encoder_and_decoder_blocks_are_all_their_own():
    """A notebook gave the decoder the encoder's feed-forward weights, PyTorch gives all layers the same."""
    model = build_model(EncoderDecoderConfig.from_table(SMALL, src_vocab_size=30, tgt_vocab_size=30), seed=0)
    blocks = [*model.encoder.blocks, *model.decoder.blocks]
    weights = [block.feed_forward.inner.weight for block in blocks]
    assert len({weight.data_ptr() for weight in weights}) == 4
    assert not any(torch.equal(weights[0], weight) for weight in weights[1:])


def test_first_weights_are_xavier_block_by_block():
    """Query, key and value are drawn as three matrices, though they lie in one."""
    model = build_model(
        EncoderDecoderConfig.from_table(
            {"d_model": 64, "num_heads": 4, "d_ff": 256, "num_kv_heads": 2},
            src_vocab_size=30,
            tgt_vocab_size=30,
        ),
        seed=0,
    )
    stacked = 0
    for module in model.modules():
        if not isinstance(module, nn.Linear) or module is model.output:
            continue
        stacked += isinstance(module, StackedLinear)
        widths = module.widths if isinstance(module, StackedLinear) else [module.out_features]
        for matrix in module.weight.split(widths):
            bound = math.sqrt(6 / sum(matrix.shape))
            assert 0.95 * bound < matrix.abs().max() <= bound
            assert abs(matrix.std().item() - bound / math.sqrt(3)) < 0.05 * bound
        assert module.bias is None or not module.bias.any()
    assert stacked == 12


def test_first_embeddings_have_unit_variance_and_the_first_logits_too():
    model = build_model(
        EncoderDecoderConfig.from_table({"preset": "tiny"}, src_vocab_size=2000, tgt_vocab_size=2000), seed=0
    ).eval()
    ids = torch.randint(4, 2000, (2, 20), generator=torch.Generator().manual_seed(0))
    weight = model.encoder.input.embedding.weight
    assert abs(weight.std().item() - 128**-0.5) < 0.002
    with torch.no_grad():
        logits = model(ids, torch.tensor([20, 20]), ids)
    assert 0.8 < logits.std() < 1.25


def test_no_row_of_an_embedding_is_frozen():
    """The padding's row takes part in the softmax, so it must be able to learn that padding is never next."""
    model = build_model(EncoderDecoderConfig.from_table(SMALL, src_vocab_size=30, tgt_vocab_size=30), seed=0)
    ids = torch.tensor([[5, 6, 0]])
    model(ids, torch.tensor([2]), ids).logsumexp(-1).sum().backward()
    assert model.output.weight.grad is not None
    assert model.output.weight.grad.any(dim=1).all()


OF_EACH_KIND = [
    EncoderDecoderConfig.from_table({**SMALL, "positions": positions}, src_vocab_size=30, tgt_vocab_size=30)
    for positions in ("sinusoidal", "learned", "rotary", "alibi", "t5", "none")
] + [
    DecoderOnlyConfig.from_table({"preset": "nano"}, vocab_size=30),
    EncoderOnlyConfig.from_table({"preset": "bert-tiny"}, vocab_size=30, head="masked_language_model"),
    RecurrentConfig.from_table({"d_model": 8, "cell": "lstm"}, src_vocab_size=30, tgt_vocab_size=30),
]


@pytest.mark.parametrize("config", OF_EACH_KIND, ids=lambda config: config.kind)
def test_an_uninitialised_model_has_the_shapes_of_an_initialised_one(config):
    drawn, unfilled = build_model(config, seed=0), build_uninitialised(config)
    shapes = [{name: each.shape for name, each in model.state_dict().items()} for model in (drawn, unfilled)]
    assert shapes[0] == shapes[1]
    for name, buffer in drawn.named_buffers():
        assert torch.equal(buffer, unfilled.get_buffer(name)), name
    assert count_config_parameters(config) == count_parameters(drawn)


def test_a_model_too_big_to_be_made_can_be_counted():
    config = EncoderDecoderConfig(src_vocab_size=10**9, tgt_vocab_size=10**9)
    assert count_config_parameters(config) > 5 * 10**11


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_no_table_of_positions_is_made_to_count_a_wide_model(positions):
    """A table of 1,024 positions of this width took 12 GB."""
    config = EncoderDecoderConfig(
        src_vocab_size=30, tgt_vocab_size=30, d_model=10**6, num_heads=10**5, positions=positions
    )
    largest = 0

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            made = func(*args, **(kwargs or {}))
            if isinstance(made, torch.Tensor) and made.device.type == "cpu":
                largest = max(largest, made.numel())
            return made

    with Watch(), suppress(RuntimeError):  # too big to be counted
        count_config_parameters(config)
    assert largest <= 10**7


def test_a_model_is_loaded_without_the_compiler_of_pytorch(tmp_path):
    """Its import takes seconds, which a first translation would wait for."""
    program = (
        "import sys, regard;"
        "from regard.verbs.shared.included_models import included_model;"
        "regard.load(included_model());"
        "sys.exit(not {'torch._dynamo', 'sympy'}.isdisjoint(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


class Gate(nn.Module):
    """Positions with layers and a parameter that it initialises itself."""

    def __init__(self, config, bidirectional):
        super().__init__()
        self.drawn = nn.Parameter(torch.randn(config.d_model))
        self.layer = nn.Linear(config.d_model, config.d_model)
        nn.init.zeros_(self.layer.weight)
        nn.init.constant_(self.layer.bias, 2.0)

    def forward(self, start, length):
        return torch.arange(start, start + length)[:, None] * self.layer(self.drawn)


class Gated(SelfAttention):
    def __init__(self, d_model, num_heads, **others):
        super().__init__(d_model, num_heads, **others)
        self.gate = nn.Linear(d_model, 1)
        nn.init.constant_(self.gate.weight, 5.0)


class OwnTable(LearnedPositions):
    """A subclass of one of regard's own, with values of its own."""

    def __init__(self, config, bidirectional):
        super().__init__(config.d_model, 9)
        nn.init.constant_(self.weight, 3.0)


def test_a_registered_subclass_of_own_positions_keeps_its_values():
    register_positions("table", "input")(OwnTable)
    try:
        sizes = {"vocab_size": 9, "d_model": 16, "num_heads": 2, "d_ff": 32, "num_layers": 1}
        config = EncoderOnlyConfig(**sizes, head="masked_language_model", positions="table")
        model = build_model(config, seed=1)
        found = [module for module in model.modules() if isinstance(module, OwnTable)]
        assert all((module.weight == 3).all() for module in found)
        assert found
    finally:
        POSITIONS.added.pop("table")


@pytest.fixture
def registered():
    register_positions("gate", "input")(Gate)
    register_attention("gated")(Gated)
    yield {"positions": "gate", "attention": "gated"}
    POSITIONS.added.pop("gate")
    ATTENTIONS.added.pop("gated")


@pytest.mark.parametrize("config", [EncoderDecoderConfig, EncoderOnlyConfig])  # Xavier, and normal
def test_a_registered_part_initialises_itself_by_the_seed(registered, config):
    sizes = {"d_model": 16, "num_heads": 2, "d_ff": 32, **registered}
    if config is EncoderDecoderConfig:
        sizes |= {"src_vocab_size": 9, "tgt_vocab_size": 9, "num_encoder_layers": 1, "num_decoder_layers": 1}
    else:
        sizes |= {"vocab_size": 9, "num_layers": 1, "head": "masked_language_model"}
    one, same, other = (build_model(config(**sizes), seed=seed) for seed in (1, 1, 2))
    parts = [module for module in one.modules() if isinstance(module, Gate | Gated)]
    assert {type(part) for part in parts} == {Gate, Gated}
    for part in parts:
        if isinstance(part, Gate):
            assert (part.layer.weight == 0).all()
            assert (part.layer.bias == 2).all()
        else:
            assert (part.gate.weight == 5).all()
            assert (part.query_key_value.bias == 0).all()  # of the base class, with the model
    states = [model.state_dict() for model in (one, same, other)]
    assert all(states[0][name].equal(states[1][name]) for name in states[0])
    drawn = next(name for name in states[0] if name.endswith("drawn"))
    assert not states[0][drawn].equal(states[2][drawn])


def test_building_leaves_the_random_state_as_it_was():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    build_model(RecurrentConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=8), seed=1)
    assert torch.rand(3).equal(expected)


@pytest.fixture
def _garbage_in_memory():
    """Memory of new tensors holds NaN, as it may at any time."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


class RandomTable(nn.Module):
    """A fixed table of random numbers, which is not saved."""

    def __init__(self, config, bidirectional):
        super().__init__()
        drawn = torch.empty(9, config.d_model).normal_(generator=torch.Generator().manual_seed(3))
        self.register_buffer("drawn", drawn, persistent=False)

    def forward(self, start, length):
        return self.drawn[start : start + length]


@pytest.mark.usefixtures("_garbage_in_memory", "parts_only_here")
def test_a_model_of_registered_parts_is_read_whatever_its_memory_holds():
    register_positions("mine", "input")(RandomTable)
    register_attention("mine")(Gated)
    register_norm("mine")(lambda config, width: nn.Linear(width, width))
    register_feed_forward("mine")(lambda config: FeedForward(config.d_model, config.d_ff, torch.tanh))
    parts = dict.fromkeys(("positions", "attention", "norm", "activation"), "mine")
    sizes = {"vocab_size": 9, "d_model": 16, "num_heads": 2, "d_ff": 32, "num_layers": 1}
    config = DecoderOnlyConfig(**sizes, **parts, qk_norm=True)
    trained = build_model(config, seed=1).eval()
    for each in trained.parameters():
        each.data.zero_()  # which no trial would accept, but these are the weights
    read = build_uninitialised(config)
    assert any(each.isnan().any() for each in read.parameters()), "a model to be read has no values yet"
    read.load_state_dict(trained.state_dict())
    ids = torch.tensor([[3, 5, 2]])
    assert torch.equal(read.eval()(ids), trained(ids))
    assert torch.equal(read.input.positions.drawn, trained.input.positions.drawn)
