"""A registered part that ignores what it has to use is refused by name when a model is built."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

from regard.errors import ConfigError, UserError
from regard.layers.attention import SelfAttention
from regard.layers.positions import LearnedPositions, LinearBias, RotaryPositions
from regard.layers.scaled_dot_product import attention
from regard.models import part_trials
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.registered import (
    ATTENTIONS,
    register_attention,
    register_feed_forward,
    register_norm,
    register_positions,
)
from regard.models.vision import VisionConfig
from tests.models.small_models import SIZES, decoder, encoder, translation


@pytest.fixture(autouse=True)
def _no_trial_may_fail(monkeypatch, parts_only_here):
    monkeypatch.setattr(part_trials, "is_of_any_device", lambda error: True)


class Attends(SelfAttention):
    """Softmax attention of which a part may be left out."""

    leaves_out = ()

    def attend(self, query, key, value, mask=None, position_bias=None, dropout=0.0):
        given = {"mask": mask, "position_bias": position_bias, "dropout": dropout}
        return attention(query, key, value, **{n: v for n, v in given.items() if n not in self.leaves_out})


def attends_without(*names):
    return register_attention("mine")(type("Mine", (Attends,), {"leaves_out": names}))


class OwnCausal(Attends):
    """It ignores the mask, and attends to earlier positions by itself."""

    def attend(self, query, key, value, mask=None, position_bias=None, dropout=0.0):
        seen = torch.ones(query.size(2), key.size(2), dtype=torch.bool).tril(key.size(2) - query.size(2))
        return attention(query, key, value, seen[None, None], position_bias, dropout)


@pytest.mark.parametrize(
    ("build", "seen"), [(decoder, "tokens after it"), (encoder, "padding"), (translation, "padding")]
)
def test_an_attention_that_ignores_the_mask_is_refused(build, seen):
    attends_without("mask")
    with pytest.raises(ConfigError, match=f"'mine' does not use the mask: .* depends on {seen}") as error:
        build(attention="mine")
    assert "mask is False" in error.value.hint
    attends_without()
    build(attention="mine")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda mixed: torch.dropout(mixed, 0.5, True), "gives two outputs for the same states"),
        (lambda mixed: mixed * torch.nan, "gives NaN for states of"),
        (lambda mixed: mixed.sum(dim=-1), r"gives \[2, 5\] for states of \[2, 5, 16\]"),
    ],
    ids=["random", "not a number", "shape"],
)
def test_outputs_that_no_attention_has_are_named(change, message):
    class Changed(SelfAttention):
        def forward(self, x, memory, mask=None, **others):
            return change(super().forward(x, memory, mask, **others))

    register_attention("mine")(Changed)
    for build in (decoder, encoder, translation):
        with pytest.raises(ConfigError, match=f"'mine' {message}"):
            build(attention="mine")


def test_parts_that_need_no_mask_are_accepted():
    register_attention("mine")(OwnCausal)
    decoder(attention="mine")
    attends_without("mask")
    sizes = {"image_size": 8, "patch_size": 4, "num_labels": 2, "num_layers": 1}
    build_model(VisionConfig(**sizes, **SIZES, attention="mine"), seed=0)


def test_an_attention_that_ignores_the_cache_is_refused():
    class Forgets(SelfAttention):
        def forward(self, x, memory, mask=None, *, cache=None, **others):
            return super().forward(x, memory, None if mask is None else mask[..., -x.size(1) :])

    register_attention("mine")(Forgets)
    with pytest.raises(ConfigError, match="'mine' gives another output token by token with a cache"):
        decoder(attention="mine")
    encoder(attention="mine")


def test_settings_that_an_attention_does_not_use_are_refused():
    attends_without("position_bias")
    decoder(attention="mine")
    for positions in ("alibi", "t5"):
        with pytest.raises(
            ConfigError, match=f"'{positions}' has no effect: .*'mine' does not use position_"
        ):
            decoder(attention="mine", positions=positions)
    attends_without("dropout")
    decoder(attention="mine")  # the default may not have been chosen
    with pytest.raises(ConfigError, match=r"attention_dropout = 0\.3 has no effect: .*'mine'") as error:
        decoder(attention="mine", attention_dropout=0.3)
    assert "attention_dropout = 0" in error.value.hint
    attends_without()
    decoder(attention="mine", attention_dropout=0.3, positions="alibi")


class Table(nn.Module):
    """Learned positions, which begin as 0."""

    def __init__(self, config, bidirectional):
        super().__init__()
        self.rows = nn.Parameter(torch.zeros(20, config.d_model))

    def forward(self, start, length):
        return self.rows[start : start + length]


class NoStart(Table):
    def forward(self, start, length):
        return self.rows[:length]


class OfLength(Table):
    def forward(self, start, length):
        return torch.arange(start, start + length)[:, None] / length + self.rows[start : start + length]


class OtherAt(Table):
    def at(self, positions):
        return self.rows[positions + 1]


def test_positions_that_ignore_their_start_or_depend_on_the_length_are_refused():
    for part, message in (
        (NoStart, "gives other vectors from start = 2 than from 0"),
        (OfLength, "gives other vectors for positions 0 and 1 in a text of 5"),
        (OtherAt, r"gives other vectors by at\(positions\)"),
    ):
        register_positions("mine", "input")(part)
        with pytest.raises(ConfigError, match=f"the positional encoding 'mine' {message}"):
            translation(positions="mine")
    register_positions("mine", "input")(NoStart)
    encoder(positions="mine")  # which begins at 0 always
    register_positions("mine", "input")(Table)
    model = translation(positions="mine")
    assert not model.decoder.input.positions.rows.any()


class FirstQueries(LinearBias):
    """A bias as if queries were the first positions."""

    def forward(self, queries, keys):
        return super().forward(keys, keys)[..., :queries, :]


class OfCount(LinearBias):
    def forward(self, queries, keys):
        return super().forward(queries, keys) / keys


@pytest.mark.parametrize(
    ("part", "message"),
    [(FirstQueries, "for 3 queries of 5 keys"), (OfCount, "positions 0 and 1 in a text of 5")],
)
def test_a_bias_for_other_positions_than_it_is_called_for_is_refused(part, message):
    register_positions("mine", "scores")(lambda config, bidirectional: part(config.num_heads))
    with pytest.raises(ConfigError, match=f"'mine' gives other numbers .*{message}"):
        decoder(positions="mine")
    register_positions("mine", "scores")(lambda config, bidirectional: LinearBias(config.num_heads))
    decoder(positions="mine")


def test_a_rotation_that_ignores_its_start_is_refused():
    class Rotates(RotaryPositions):
        def forward(self, x, start=0):
            return super().forward(x, 0)

    register_positions("mine", "queries_and_keys")(lambda config, bidirectional: Rotates(config.d_head))
    with pytest.raises(ConfigError, match="'mine' gives other numbers from start = 2 than 0"):
        decoder(positions="mine")
    encoder(positions="mine")


@pytest.mark.parametrize(
    "mixes",
    [lambda x: x - x.mean(dim=-2, keepdim=True), lambda x: x / x.abs().amax()],
    ids=["mean", "largest"],
)
def test_norms_and_networks_that_mix_positions_are_refused(mixes):
    class Mixes(nn.Module):
        def forward(self, x):
            return mixes(x)

    for register, setting in ((register_norm, "norm"), (register_feed_forward, "activation")):
        register("mine")(lambda *given: Mixes())
        for others in ({}, {"qk_norm": True}):
            with pytest.raises(ConfigError, match="'mine' gives a position another output if others change"):
                decoder(**{setting: "mine"}, **others)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.mul_(2), "changes the states that it is given"),
        (lambda x: x * 0, "gives the same output for all states"),
        (lambda x: x.sqrt(), "gives NaN for states"),
    ],
    ids=["in place", "zero", "not a number"],
)
def test_parts_that_write_into_their_input_or_ignore_it_are_refused(change, message):
    class Changes(nn.Module):
        def forward(self, x):
            return change(x)

    class Attention(SelfAttention):
        def forward(self, x, memory, mask=None, **others):
            changed = change(x)
            return super().forward(changed, changed, mask, **others)

    class Rotation(RotaryPositions):
        def forward(self, x, start=0):
            return super().forward(change(x), start)

    register_norm("mine")(lambda *given: Changes())
    register_feed_forward("mine")(lambda *given: Changes())
    register_attention("mine")(Attention)
    register_positions("mine", "queries_and_keys")(lambda config, bidirectional: Rotation(config.d_head))
    for setting in ("norm", "activation", "attention", "positions"):
        if setting == "positions" and "NaN" in message:
            continue
        for build in (decoder, encoder, translation):
            with pytest.raises(ConfigError, match=f"'mine' {message}"):
                build(**{setting: "mine"})


class Kept(nn.Module):
    """A part of a linear layer, with what a test keeps in it."""

    def __init__(self, kept, change=lambda x: x):
        super().__init__()
        self.linear, self.change, self.kept = nn.Linear(16, 16), change, kept

    def forward(self, x):
        return self.change(self.linear(x) if x.size(-1) == 16 else x)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Kept(torch.randn(16, 16)), "keeps a tensor in kept that is neither trained nor saved"),
        (lambda: Kept([nn.Linear(16, 16)]), "keeps a layer in kept"),
        (lambda: Kept({"a": torch.zeros(3)}), "keeps a tensor in kept"),
        (lambda: nn.Sequential(Kept((torch.zeros(3),))), r"keeps a tensor in 0\.kept"),
        (lambda: Kept(None, lambda x: x.detach()), "has no gradient"),
        (lambda: Kept(None, lambda x: (x > 0).float()), "has no gradient"),
        (lambda: Kept(None, lambda x: x.half()), r"gives torch\.float16 for torch\.float32"),
    ],
)
def test_parts_that_would_not_be_trained_or_saved_are_refused(make, message):
    for register, setting in ((register_norm, "norm"), (register_feed_forward, "activation")):
        register("mine")(lambda *given: make())
        with pytest.raises(ConfigError, match=f"'mine' {message}"):
            decoder(**{setting: "mine"})
        register("mine")(lambda *given: Kept(torch.tensor(0.5)))
        decoder(**{setting: "mine"})


def test_attentions_and_positions_keep_no_tensors_that_are_not_saved():
    class Keeps(SelfAttention):
        def __init__(self, *given, **others):
            super().__init__(*given, **others)
            self.slopes = torch.ones(4)

    class Rows(nn.Module):
        def __init__(self, config, bidirectional):
            super().__init__()
            self.rows = torch.randn(20, config.d_model)

        def forward(self, start, length): ...

    register_attention("mine")(Keeps)
    register_positions("mine", "input")(Rows)
    for setting, name in (("attention", "slopes"), ("positions", "rows")):
        with pytest.raises(ConfigError, match=f"'mine' keeps a tensor in {name}"):
            decoder(**{setting: "mine"})


def test_a_module_is_not_registered_for_what_makes_one():
    for register in (register_norm, register_feed_forward):
        with pytest.raises(UserError, match="'mine' is a module, which all layers would share"):
            register("mine")(nn.GELU())


def test_a_module_that_several_parts_would_share_is_refused():
    shared = nn.LayerNorm(16)
    for make in (lambda config, width: shared, lambda config, width: nn.Sequential(shared)):
        register_norm("mine")(make)
        with pytest.raises(ConfigError, match="the norm 'mine' has the same weights each time") as error:
            decoder(norm="mine")
        assert error.value.hint == "make a new module in each call"
    one = nn.Linear(16, 16)
    register_feed_forward("mine")(lambda config: one)
    decoder(activation="mine")  # of one layer
    with pytest.raises(ConfigError, match="which layers or models would share"):
        decoder(activation="mine")
    table = LearnedPositions(16, 20)
    register_positions("mine", "input")(lambda config, bidirectional: table)
    with pytest.raises(ConfigError, match="the positional encoding 'mine' has the same weights"):
        translation(positions="mine")


def test_what_regard_uses_several_times_is_no_shared_module():
    """A rotation of all layers, one norm of two branches, norms within attentions."""

    class Scaled(RotaryPositions):
        def __init__(self, config, bidirectional):
            super().__init__(config.d_head)
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x, start=0):
            return super().forward(self.scale * x, start)

    same, norm = nn.Tanh(), nn.LayerNorm(16)
    register_positions("mine", "queries_and_keys")(Scaled)
    register_norm("mine")(lambda config, width: nn.LayerNorm(width))
    register_norm("copied")(lambda config, width: copy.deepcopy(norm))
    register_feed_forward("mine")(lambda config: same)
    attends_without()
    parts = dict.fromkeys(("positions", "norm", "attention", "activation"), "mine")
    sizes = {"vocab_size": 11, **SIZES, **parts, "num_layers": 2, "qk_norm": True}
    for parallel in ("one_norm", "two_norms"):
        build_model(DecoderOnlyConfig(**sizes, norm_position="pre", parallel_residual=parallel), seed=0)
    decoder(norm="copied")


def test_a_part_that_begins_as_0_is_accepted():
    class Gated(nn.Module):
        def __init__(self, *given):
            super().__init__()
            self.gate = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return self.gate * x

    register_feed_forward("mine")(Gated)
    register_norm("mine")(Gated)
    model = decoder(activation="mine", norm="mine")
    assert all(not each.gate for each in model.modules() if isinstance(each, Gated))


def test_a_norm_of_queries_may_mix_heads():
    class OverHeads(nn.Module):
        def forward(self, x):
            return x - x.mean(dim=1, keepdim=True) if x.dim() == 4 else x

    register_norm("mine")(lambda *given: OverHeads())
    decoder(norm="mine", qk_norm=True)


class Random(Attends):
    """It has random numbers, a frozen part, and a count."""

    def __init__(self, *given, **others):
        super().__init__(*given, **others)
        self.frozen = nn.Dropout().eval()
        self.register_buffer("count", torch.zeros(()))

    def attend(self, *given):
        torch.rand(3), np.random.rand()
        self.count += 1
        return super().attend(*given)


def test_a_trial_changes_neither_random_numbers_nor_the_part():
    register_attention("mine")(Random)
    before = torch.get_rng_state(), np.random.get_state()[1]
    model = decoder(attention="mine")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])
    part = model.blocks[0].self_attention
    assert (part.training, part.frozen.training, part.count) == (True, False, 0)
    own = decoder()
    assert all(
        torch.equal(each, own.state_dict()[n]) for n, each in model.state_dict().items() if "count" not in n
    )


def test_a_part_that_cannot_be_tried_is_not_judged(monkeypatch):
    monkeypatch.undo()

    class OnGpu(Attends):
        def attend(self, query, *others):
            raise RuntimeError("needs a GPU")

    monkeypatch.setitem(ATTENTIONS.added, "mine", OnGpu)
    decoder(attention="mine")
