"""Registered parts of models are refused where a model could not use them, by name."""

import jaxtyping
import pytest
import torch
from torch import nn

from regard.errors import ConfigError, UserError
from regard.fast.unchanged import changed_part, has_hooks
from regard.inspection.record import record_model
from regard.layers.attention import SelfAttention
from regard.layers.positions import RotaryPositions
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.recurrent import RecurrentConfig
from regard.models.registered import (
    ATTENTIONS,
    POSITIONS,
    register_attention,
    register_positions,
    registered_parts,
)


class Mean(nn.Module):
    """It ignores the mask and the cache."""

    def __init__(self, *given, **others):
        super().__init__()

    def forward(self, x, *given, **others):
        return x.mean(dim=1, keepdim=True).expand_as(x)


@pytest.fixture(autouse=True)
def _only_here(monkeypatch):
    for registry in (ATTENTIONS, POSITIONS):
        monkeypatch.setattr(registry, "added", dict(registry.added))


def build(**settings):
    return build_model(
        DecoderOnlyConfig(vocab_size=11, d_model=16, num_heads=4, d_ff=32, num_layers=1, **settings), seed=0
    )


def test_an_attention_that_is_no_self_attention_is_refused():
    with pytest.raises(ConfigError, match="'mean' is not a subclass of SelfAttention") as error:
        register_attention("mean")(Mean)
    assert "inherit from SelfAttention" in (error.value.hint or "")
    assert "mean" not in ATTENTIONS.added
    register_attention("mean")(lambda *given, **others: Mean())
    with pytest.raises(ConfigError, match="'mean' is not a subclass of SelfAttention"):
        build(attention="mean")


def test_rotations_that_are_no_rotary_positions_are_refused():
    with pytest.raises(ConfigError, match="'turned' is for queries_and_keys, but no subclass") as error:
        register_positions("turned", "queries_and_keys")(Mean)
    assert "inherit from RotaryPositions" in (error.value.hint or "")
    register_positions("turned", "queries_and_keys")(lambda config, bidirectional: Mean())
    with pytest.raises(ConfigError, match="'turned' is for queries_and_keys"):
        build(positions="turned")


@pytest.mark.parametrize("where", ["input", "scores"])
def test_positions_that_are_no_module_are_refused(where):
    with pytest.raises(ConfigError, match="'counted' is not a subclass of torch"):
        register_positions("counted", where)(dict)
    register_positions("counted", where)(lambda config, bidirectional: torch.zeros)
    with pytest.raises(ConfigError, match="'counted' is not a subclass of torch"):
        build(positions="counted")


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
    "no_heads": (lambda queries, keys: torch.zeros(1, 3, queries, keys), r"has the shape \[1, 3, 5, 5\]"),
    "square": (lambda queries, keys: torch.zeros(keys + 1, keys + 1), r"has the shape \[6, 6\]"),
    "of_five": (
        lambda queries, keys: torch.zeros(1, 1, 4, queries, keys),
        r"has the shape \[1, 1, 4, 5, 5\]",
    ),
    "number": (lambda queries, keys: 0.5, "is float, not a tensor"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_bias_that_does_not_fit_the_scores_is_refused_by_name(name):
    give, message = WRONG[name]
    register_positions(name, "scores")(lambda config, bidirectional: Bias(give))
    with pytest.raises(ConfigError, match=f"the bias of the positional encoding Bias {message}") as error:
        build(positions=name)(torch.ones(2, 5, dtype=torch.int64))
    assert error.value.hint == (
        "give [1, 4, queries, keys], or 1 for an axis that all share; here [1, 4, 5, 5]"
    )


@pytest.mark.parametrize("where", ["input", "scores", "queries_and_keys"])
def test_a_registered_encoding_does_not_make_a_model_a_changed_one(where):
    """What is changed in this process alone is not decoded by several processes."""
    makers = {
        "input": lambda config, bidirectional: nn.Embedding(9, config.d_model),
        "scores": lambda config, bidirectional: Bias(torch.zeros),
        "queries_and_keys": lambda config, bidirectional: RotaryPositions(config.d_head, 100.0),
    }
    register_positions("mine", where)(makers[where])
    assert changed_part(build(positions="mine")) is None


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
    mine, same = build(positions="mine").eval(), build(positions="whole").eval()
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
            self.table = torch.zeros(20, config.d_model)

        def forward(self, start, length):
            return self.table[start : start + length]

    register_positions("added", "input")(Added)
    model, ids = build(positions="added"), torch.ones(1, 4, dtype=torch.int64)
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


class Added(nn.Module):
    """An encoding that is added to embeddings, as a function of the place gives it."""

    def __init__(self, give):
        super().__init__()
        self.give = give

    def forward(self, start, length):
        return self.give(length)


@pytest.mark.parametrize(
    ("give", "shown"),
    [
        (lambda length: torch.ones(1, 1), r"a tensor of shape \[1, 1\]"),
        (lambda length: torch.ones(length, 3), r"a tensor of shape \[5, 3\]"),
        (lambda length: torch.ones(16), r"a tensor of shape \[16\]"),
        (lambda length: None, "NoneType"),
    ],
)
def test_positions_that_are_no_vector_for_each_token_are_refused(give, shown):
    register_positions("added", "input")(lambda config, bidirectional: Added(give))
    with pytest.raises(ConfigError, match=f"encoding Added gives {shown}, not") as error:
        build(positions="added")(torch.ones(2, 5, dtype=torch.int64))
    assert error.value.message.endswith("not [length, d_model], here [5, 16]")


def test_positions_of_packed_documents_are_one_vector_for_each_token():
    class Shared(Added):
        def at(self, positions):
            return torch.ones(positions.size(1), 16)

    register_positions("added", "input")(
        lambda config, bidirectional: Shared(lambda length: torch.ones(length, 16))
    )
    model, ids = build(positions="added"), torch.ones(2, 5, dtype=torch.int64)
    assert model(ids).shape == (2, 5, 11)
    with pytest.raises(ConfigError, match=r"Shared gives a tensor of shape \[5, 16\]") as error:
        model(ids, torch.zeros_like(ids))
    assert error.value.message.endswith("not [batch, length, d_model], here [2, 5, 16]")


def test_checked_positions_leave_no_hook():
    register_positions("added", "input")(
        lambda config, bidirectional: Added(lambda length: torch.ones(length, 16))
    )
    assert not any(map(has_hooks, build(positions="added").modules()))


@pytest.mark.parametrize("axes", [2, 3])
def test_positions_may_have_an_axis_of_rows(axes):
    def give(length):
        return torch.ones(length, 16)[(None,) * (axes - 2)]

    register_positions("added", "input")(lambda config, bidirectional: Added(give))
    ids = torch.ones(2, 5, dtype=torch.int64)
    assert build(positions="added")(ids).shape == (2, 5, 11)


def test_what_cannot_be_called_is_not_registered(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it would refuse it first
    for register in (register_positions("three", "input"), register_attention("three")):
        with pytest.raises(UserError, match="'three' is int, which cannot be called"):
            register(3)
