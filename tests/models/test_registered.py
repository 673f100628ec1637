"""Registered parts of models are refused where a model could not use them, by name."""

from contextlib import nullcontext

import jaxtyping
import pytest
import torch
from torch import nn

from regard.errors import ConfigError, UserError
from regard.exports import ctranslate2_settings, huggingface_settings
from regard.exports.refusal import NotExpressible
from regard.fast.training import fused
from regard.fast.unchanged import changed_part, has_hooks
from regard.inspection.record import record_model
from regard.layers.attention import SelfAttention
from regard.layers.positions import LearnedPositions, RotaryPositions
from regard.models.build import build_model, count_config_parameters, count_parameters
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.registered import (
    ATTENTIONS,
    register_attention,
    register_feed_forward,
    register_norm,
    register_positions,
    registered_parts,
)
from tests.models.small_models import decoder

pytestmark = pytest.mark.usefixtures("parts_only_here")


class Mean(nn.Module):
    """It ignores the mask and the cache."""

    def __init__(self, *given, **others):
        super().__init__()

    def forward(self, x, *given, **others):
        return x.mean(dim=1, keepdim=True).expand_as(x)


def test_an_attention_that_is_no_self_attention_is_refused():
    with pytest.raises(ConfigError, match="'mean' is not a subclass of SelfAttention") as error:
        register_attention("mean")(Mean)
    assert "inherit from SelfAttention" in (error.value.hint or "")
    assert "mean" not in ATTENTIONS.added
    register_attention("mean")(lambda *given, **others: Mean())
    with pytest.raises(ConfigError, match="'mean' is not a subclass of SelfAttention"):
        decoder(attention="mean")


def test_rotations_that_are_no_rotary_positions_are_refused():
    with pytest.raises(ConfigError, match="'turned' is for queries_and_keys, but no subclass") as error:
        register_positions("turned", "queries_and_keys")(Mean)
    assert "inherit from RotaryPositions" in (error.value.hint or "")
    register_positions("turned", "queries_and_keys")(lambda config, bidirectional: Mean())
    with pytest.raises(ConfigError, match="'turned' is for queries_and_keys"):
        decoder(positions="turned")


@pytest.mark.parametrize("where", ["input", "scores"])
def test_positions_that_are_no_module_are_refused(where):
    with pytest.raises(ConfigError, match="'counted' is not a subclass of torch"):
        register_positions("counted", where)(dict)
    register_positions("counted", where)(lambda config, bidirectional: torch.zeros)
    with pytest.raises(ConfigError, match="'counted' is not a subclass of torch"):
        decoder(positions="counted")


def test_registered_parts_of_a_config_are_named():
    register_positions("mine", "input")(nn.Linear)
    register_attention("own")(lambda *arguments, **options: SelfAttention(*arguments, **options))
    sizes = {"vocab_size": 11, "d_model": 16, "num_heads": 4, "d_ff": 32, "num_layers": 1}
    assert registered_parts(DecoderOnlyConfig(**sizes)) == {}
    config = DecoderOnlyConfig(**sizes, positions="mine", attention="own")
    assert registered_parts(config) == {"positions": "mine", "attention": "own"}
    assert registered_parts(RecurrentConfig(src_vocab_size=9, tgt_vocab_size=9, d_model=8)) == {}


class Bias(nn.Module):
    """A bias of scores that a function of the two counts gives."""

    def __init__(self, give):
        super().__init__()
        self.give = give

    def forward(self, queries, keys):
        return self.give(queries, keys)


WRONG = {
    "no_heads": (lambda queries, keys: torch.zeros(1, 3, queries, keys), r"has the shape \[1, 3, 2, 2\]"),
    "square": (lambda queries, keys: torch.zeros(keys + 1, keys + 1), r"has the shape \[3, 3\]"),
    "of_five": (
        lambda queries, keys: torch.zeros(1, 1, 4, queries, keys),
        r"has the shape \[1, 1, 4, 2, 2\]",
    ),
    "number": (lambda queries, keys: 0.5, "is float, not a tensor"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_bias_that_does_not_fit_the_scores_is_refused_by_name(name):
    give, message = WRONG[name]
    register_positions(name, "scores")(lambda config, bidirectional: Bias(give))
    with pytest.raises(ConfigError, match=f"the bias of the positional encoding '{name}' {message}") as error:
        decoder(positions=name)
    assert error.value.hint == (
        "give [1, 4, queries, keys], or 1 for an axis that all share; here [1, 4, 2, 2]"
    )


@pytest.mark.parametrize("where", ["input", "scores", "queries_and_keys"])
def test_a_registered_encoding_does_not_make_a_model_a_changed_one(where):
    """What is changed in this process alone is not decoded by several processes."""
    makers = {
        "input": lambda config, bidirectional: LearnedPositions(config.d_model, 9, 0),
        "scores": lambda config, bidirectional: Bias(lambda queries, keys: torch.arange(1.0 * keys)[None]),
        "queries_and_keys": lambda config, bidirectional: RotaryPositions(config.d_head, 100.0),
    }
    register_positions("mine", where)(makers[where])
    assert changed_part(decoder(positions="mine")) is None


@pytest.mark.parametrize("axes", [2, 3, 4])
@torch.no_grad()
def test_a_bias_may_leave_out_axes_that_all_share(axes):
    def give(queries, keys):
        distance = torch.arange(keys) - torch.arange(keys)[-queries:, None]
        return (0.3 * distance)[(None,) * (axes - 2)]

    def whole(queries, keys):
        return give(queries, keys).expand(1, 4, -1, -1)

    register_positions("mine", "scores")(lambda config, bidirectional: Bias(give))
    register_positions("whole", "scores")(lambda config, bidirectional: Bias(whole))
    mine, same = decoder(positions="mine").eval(), decoder(positions="whole").eval()
    ids = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 3, 4]])
    torch.testing.assert_close(mine(ids), same(ids))
    with record_model(mine, parts=("bias", "weights", "scores")) as recording:
        mine(ids)
    assert recording.bias("blocks.0.self_attention").shape == (1, 5, 5)
    cache = mine.start()
    steps = torch.cat([mine.extend(ids[:, [t]], cache) for t in range(5)], dim=1)
    torch.testing.assert_close(steps, mine(ids))


def test_packed_documents_need_the_positions_of_an_encoding():
    class Added(nn.Module):
        def __init__(self, config, bidirectional):
            super().__init__()
            self.register_buffer("table", torch.randn(20, config.d_model))

        def forward(self, start, length):
            return self.table[start : start + length]

    register_positions("added", "input")(Added)
    model, ids = decoder(positions="added"), torch.ones(1, 4, dtype=torch.int64)
    model(ids)
    with pytest.raises(ConfigError, match="Added gives no positions for packed documents: it has no `at`"):
        model(ids, torch.tensor([[0, 0, 1, 1]]))
    Added.at = lambda self, positions: self.table[positions]
    model(ids, torch.tensor([[0, 0, 1, 1]]))


class Forgot(SelfAttention):
    """A subclass with a mistyped method."""

    name = "forgot"

    def attends(self, query):
        raise NotImplementedError


class Forward(SelfAttention):
    def forward(self, *given, **others):
        return super().forward(*given, **others)


class Attend(SelfAttention):
    def attend(self, query, key, value, *others):
        return value


def test_a_self_attention_that_overrides_nothing_is_refused():
    for kind in (Forgot, SelfAttention):
        with pytest.raises(ConfigError, match="'same' overrides no method") as caught:
            register_attention("same")(kind)
        assert kind.__name__ in caught.value.hint
    for kind in (Forward, Attend, type("Inherits", (Attend,), {})):
        assert register_attention("different")(kind) is kind


def rising(start, length):
    """A vector for each position."""
    return torch.arange(float(start), start + length)[:, None].expand(length, 16)


class Added(nn.Module):
    """An encoding that is added to embeddings, as a function of the place gives it."""

    def __init__(self, give):
        super().__init__()
        self.give = give

    def forward(self, start, length):
        return self.give(start, length)


@pytest.mark.parametrize(
    ("give", "shown"),
    [
        (lambda start, length: torch.ones(1, 1), r"a tensor of shape \[1, 1\]"),
        (lambda start, length: torch.ones(length, 3), r"a tensor of shape \[2, 3\]"),
        (lambda start, length: torch.ones(16), r"a tensor of shape \[16\]"),
        (lambda start, length: None, "NoneType"),
    ],
)
def test_positions_that_are_no_vector_for_each_token_are_refused(give, shown):
    register_positions("added", "input")(lambda config, bidirectional: Added(give))
    with pytest.raises(ConfigError, match=f"encoding Added gives {shown}, not") as error:
        decoder(positions="added")
    assert error.value.message.endswith("not [length, d_model], here [2, 16]")


def test_positions_of_packed_documents_are_one_vector_for_each_token():
    class Shared(Added):
        def at(self, positions):
            return rising(0, positions.size(1))

    register_positions("added", "input")(lambda config, bidirectional: Shared(rising))
    with pytest.raises(ConfigError, match=r"Shared gives a tensor of shape \[5, 16\]") as error:
        decoder(positions="added")
    assert error.value.message.endswith("not [batch, length, d_model], here [2, 5, 16]")


def test_checked_positions_leave_no_hook():
    register_positions("added", "input")(lambda config, bidirectional: Added(rising))
    assert not any(map(has_hooks, decoder(positions="added").modules()))


@pytest.mark.parametrize("axes", [2, 3])
def test_positions_may_have_an_axis_of_rows(axes):
    def give(start, length):
        return rising(start, length)[(None,) * (axes - 2)]

    register_positions("added", "input")(lambda config, bidirectional: Added(give))
    ids = torch.ones(2, 5, dtype=torch.int64)
    assert decoder(positions="added")(ids).shape == (2, 5, 11)


def test_what_cannot_be_called_is_not_registered(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse it first
    for register in (register_positions("three", "input"), register_attention("three")):
        with pytest.raises(UserError, match="'three' is int, which cannot be called"):
            register(3)


class Shifted(nn.Module):
    """tanh(scale x + shift): a norm that looks at each number alone."""

    def __init__(self, config, width):
        super().__init__()
        self.scale = nn.Parameter(torch.full((width,), 0.5))
        self.shift = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        return torch.tanh(self.scale * x + self.shift)


class Squared(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.inner, self.outer = nn.Linear(config.d_model, 7), nn.Linear(7, config.d_model)

    def forward(self, x):
        return self.outer(torch.relu(self.inner(x)) ** 2)


@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_a_registered_norm_is_each_norm_of_the_model_and_keeps_its_values(norm_position):
    register_norm("mine")(Shifted)
    model = decoder(norm="mine", norm_position=norm_position, qk_norm=True)
    own = [each for each in model.modules() if isinstance(each, Shifted)]
    assert not any(isinstance(each, nn.LayerNorm | nn.RMSNorm) for each in model.modules())
    assert sorted(each.scale.numel() for each in own) == [4, 4, 16, 16] + [16] * (norm_position == "pre")
    for each in own:
        assert torch.equal(each.shift, torch.full_like(each.shift, 0.1))


@torch.no_grad()
def test_a_registered_network_is_that_of_each_layer_and_initialises_itself():
    register_feed_forward("mine")(Squared)
    model = decoder(activation="mine").eval()
    [own] = [each for each in model.modules() if isinstance(each, Squared)]
    assert model.blocks[0].feed_forward is own
    assert own.inner.bias.any(), "PyTorch's initial bias; that of regard is 0"
    assert own.outer.weight.abs().max() > 0.3, "PyTorch's bound is 7^-0.5; GPT-2's last layer is scaled down"
    ids = torch.tensor([[3, 5, 2, 9]])
    cache = model.start()
    stepwise = [model.extend(ids[:, i : i + 1], cache) for i in range(4)]
    torch.testing.assert_close(torch.cat(stepwise, dim=1), model(ids))


def test_they_are_trained_as_the_plain_forms_compute():
    """The fused training form leaves what it does not know alone."""
    register_norm("mine")(Shifted)
    register_feed_forward("mine")(Squared)
    ids = torch.randint(1, 11, (3, 6), generator=torch.Generator().manual_seed(1))
    sizes = {"d_model": 16, "num_heads": 4, "num_encoder_layers": 1, "num_decoder_layers": 1, "dropout": 0.0}
    config = EncoderDecoderConfig(
        src_vocab_size=11, tgt_vocab_size=11, norm="mine", activation="mine", norm_position="pre", **sizes
    )
    gradients = []
    for form in (fused, lambda model: nullcontext()):
        model = build_model(config, seed=1).train()
        with form(model):
            model(ids, torch.tensor([6, 4, 2]), ids).logsumexp(dim=-1).mean().backward()
        gradients.append([each.grad for each in model.parameters()])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)
    assert any(each.scale.grad.any() for each in model.modules() if isinstance(each, Shifted))
    assert all(each.outer.weight.grad.any() for each in model.modules() if isinstance(each, Squared))


@pytest.mark.parametrize(
    ("register", "setting"), [(register_norm, "norm"), (register_feed_forward, "activation")]
)
def test_what_is_no_module_or_has_another_shape_is_refused_by_name(register, setting, monkeypatch):
    register("number")(lambda *given: 3)
    with pytest.raises(ConfigError, match=f"{setting} 'number' is int, not a torch.nn.Module"):
        decoder(**{setting: "number"})
    register("narrow")(lambda *given: nn.Linear(16, 3))
    with pytest.raises(
        ConfigError, match=rf"{setting} 'narrow' gives \[2, 3, 3\] for states of \[2, 3, 16\]"
    ):
        decoder(**{setting: "narrow"})
    with pytest.raises(ConfigError, match=f"{setting} = 'narow' is unknown") as refused:
        decoder(**{setting: "narow"})
    assert "'narrow'" in refused.value.hint
    with pytest.raises(UserError, match="is one of regard's own"):
        register({"norm": "rms", "activation": "swiglu"}[setting])
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # which would refuse it first
    with pytest.raises(UserError, match="cannot be called"):
        register("number")(3)


def test_sizes_are_counted_without_a_trial():
    """Weights that are counted have no values; a norm may look at some."""

    class Branching(Shifted):
        def forward(self, x):
            return super().forward(x) if self.scale[0] > 0 else x

    register_norm("mine")(Branching)
    assert count_config_parameters(decoder(norm="mine").config) == count_parameters(decoder(norm="mine"))


def test_a_norm_of_queries_and_keys_is_tried_with_heads():
    class OfThree(Shifted):
        def forward(self, x):
            assert x.ndim == 3
            return x

    register_norm("mine")(OfThree)
    decoder(norm="mine")
    with pytest.raises(ConfigError, match=r"'mine' fails for states of \[2, 3, 4, 4\]: AssertionError"):
        decoder(norm="mine", qk_norm=True)


def test_a_registered_part_is_in_training_mode_after_it_was_tried():
    register_feed_forward("mine")(lambda config: nn.Sequential(nn.Dropout(0.5)))
    model = decoder(activation="mine")
    assert all(each.training for each in model.modules())


def test_registered_norms_and_networks_are_not_exported_where_they_are_not_known():
    register_norm("mine")(Shifted)
    register_feed_forward("mine")(Squared)
    for settings in ({"norm": "mine"}, {"activation": "mine"}):
        config = decoder(**settings).config
        assert registered_parts(config) == settings
        for refuse in (ctranslate2_settings.refuse_other_settings, huggingface_settings.known):
            with pytest.raises(NotExpressible, match="mine"):
                refuse(config)


def test_what_a_part_raises_when_it_is_made_is_named():
    register_norm("mine")(lambda config, width: config.no_such_setting)
    with pytest.raises(ConfigError, match="the norm 'mine' fails: AttributeError"):
        decoder(norm="mine")


def test_positions_that_cannot_be_called_where_they_enter_are_refused():
    register_positions("mine", "scores")(lambda config, bidirectional: nn.Identity())
    with pytest.raises(ConfigError, match="'mine': forward: too many positional arguments") as raised:
        decoder(positions="mine")
    assert "queries, keys" in raised.value.hint


def test_an_attention_without_an_argument_that_its_config_needs_is_refused():
    class Plain(SelfAttention):
        def __init__(
            self, d_model, num_heads, *, num_kv_heads, d_head, scale, dropout, bias, rotary, qk_norm
        ):
            super().__init__(d_model, num_heads)

        def attend(self, *arguments): ...

    register_attention("mine")(Plain)
    with pytest.raises(ConfigError, match="the self-attention 'mine': got an unexpected keyword argument"):
        decoder(attention="mine", attention_bias="inputs")
