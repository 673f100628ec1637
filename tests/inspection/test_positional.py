"""Every scheme shows what the model really does with positions."""

from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard.exports.refusal import NotExpressible
from regard.inspection.plots import draw_positions
from regard.inspection.positional import positions_of
from regard.layers.positions import RotaryPositions, sinusoids
from regard.models.registered import POSITIONS, register_positions
from regard.verbs.look import look
from regard.verbs.views.live_page import _positions as page_positions


def shown(forced_pass, scheme, kind="decoder_only", length=12, part="encoder", **changes):
    return positions_of(forced_pass(kind, positions=scheme, **changes).model, length, part=part)


def test_learned_positions_are_drawn_of_a_model_that_is_not_frozen(forced_pass):
    for scheme, length in (("learned", 5), ("t5", 5)):
        found = shown(
            forced_pass, scheme, length=length, **({"max_positions": 20} if scheme == "learned" else {})
        )
        array = found.table if found.bias is None else found.bias
        assert array.numpy().shape[-2] == length
        assert not array.requires_grad


def test_sinusoids_are_those_of_the_paper_and_alike_by_distance_alone(forced_pass):
    found = shown(forced_pass, "sinusoidal")
    assert (found.scheme, found.length, found.d, found.bias) == ("sinusoidal", 12, 16, None)
    torch.testing.assert_close(found.table, sinusoids(0, 12, 16))
    for distance in range(1, 11):
        along = found.similarity.diagonal(distance)
        torch.testing.assert_close(along, along[:1].expand_as(along))
    torch.testing.assert_close(found.similarity.diagonal(), torch.ones(12))


def test_what_is_learned_is_shown_as_far_as_it_goes(forced_pass):
    forced = forced_pass("decoder_only", positions="learned", max_positions=9, position_offset=2)
    found = positions_of(forced.model, 12)
    assert (found.scheme, found.length) == ("learned", 9)
    assert torch.equal(found.table, forced.model.input.positions.weight[2:])
    expected = F.cosine_similarity(found.table[:, None], found.table[None], dim=-1)
    torch.testing.assert_close(found.similarity, expected)


def test_rotary_positions_of_a_part_of_each_head_are_those_of_that_part(forced_pass):
    model = forced_pass("decoder_only", positions="rotary", rotary_dim=2).model
    found = positions_of(model, 12)
    assert found.d == 2 < model.config.d_head
    assert found.table.shape == (12, 2)
    torch.testing.assert_close(found.table[:, :1], model.blocks[0].self_attention.rotary.cosine[:12, :1])


def test_rotary_similarity_is_what_a_turned_vector_keeps_of_itself_in_the_mean(forced_pass):
    model = forced_pass("decoder_only", positions="rotary").model
    found = positions_of(model, 12)
    assert (found.scheme, found.d) == ("rotary", model.config.d_head)
    rotary = model.blocks[0].self_attention.rotary
    directions = F.normalize(torch.randn(40_000, found.d, generator=torch.Generator().manual_seed(0)), dim=-1)
    turned = rotary(directions[:, None, None].expand(-1, 1, 12, -1))[:, 0]
    mean = torch.einsum("npd,nqd->pq", turned, turned) / len(turned)
    torch.testing.assert_close(found.similarity, mean, atol=0.02, rtol=0.0)


@pytest.mark.parametrize(("scheme", "kind"), [("alibi", "decoder_only"), ("t5", "encoder_only")])
def test_a_bias_is_the_modules_own(forced_pass, scheme, kind):
    forced = forced_pass(kind, positions=scheme)
    found = positions_of(forced.model, 7)
    assert (found.scheme, found.d, found.table, found.similarity) == (scheme, 0, None, None)
    stack = forced.model.encoder if kind == "encoder_only" else forced.model
    assert torch.equal(found.bias, stack.position_bias(7, 7)[0])


def test_encoder_and_decoder_have_their_own(forced_pass):
    encoder, decoder = (
        shown(forced_pass, "t5", "encoder_decoder", part=part).bias for part in ("encoder", "decoder")
    )
    assert not torch.equal(encoder, decoder)
    assert torch.equal(decoder.triu(), decoder[:, 0, 0, None, None].expand(-1, 12, 12).triu()), (
        "one bucket ahead"
    )


def test_attention_to_earlier_positions_only_is_causal(forced_pass):
    assert shown(forced_pass, "alibi", "decoder_only").causal
    assert not shown(forced_pass, "alibi", "encoder_only").causal
    for part in ("encoder", "decoder"):
        assert shown(forced_pass, "alibi", "encoder_decoder", part=part).causal == (part == "decoder")


@pytest.mark.parametrize(("kind", "changes"), [("decoder_only", {"positions": "none"}), ("recurrent", {})])
def test_some_models_have_no_positions(forced_pass, kind, changes):
    found = positions_of(forced_pass(kind, **changes).model, 5)
    assert (found.scheme, found.table, found.similarity, found.bias) == ("none", None, None, None)
    assert found.note


def test_layers_of_two_types_have_two_bases_of_which_the_first_is_shown(forced_pass):
    types = {"window": 3, "layer_types": ("sliding_attention", "full_attention"), "local_rotary_base": 30.0}
    found = shown(forced_pass, "rotary", num_layers=2, **types)
    torch.testing.assert_close(found.table, shown(forced_pass, "rotary", rotary_base=30.0).table)
    assert "the first layer" in found.note
    assert "the first layer" not in shown(forced_pass, "rotary", rotary_base=30.0).note


class Table(nn.Module):
    def __init__(self, config, bidirectional):
        super().__init__()
        table = torch.randn(20, config.d_model, generator=torch.Generator().manual_seed(0))
        self.register_buffer("table", table)

    def forward(self, start, length):
        return self.table[start : start + length]


class Bias(nn.Module):
    """A bias by the distance, or by the key alone."""

    def __init__(self, by_distance):
        super().__init__()
        self.by_distance = by_distance

    def forward(self, queries, keys):
        key, query = torch.arange(keys), torch.arange(keys)[-queries:, None]
        bias = (key - query if self.by_distance else key.expand(queries, -1)).float()
        return torch.stack([bias, 2 * bias])[None].repeat(1, 2, 1, 1)


class Turned(RotaryPositions):
    """It rotates backwards."""

    def forward(self, x, start=0):
        return super().forward(x.flip(-1), start).flip(-1)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(POSITIONS, "added", dict(POSITIONS.added))
    register_positions("table", "input")(Table)
    register_positions("by_distance", "scores")(lambda config, bidirectional: Bias(True))
    register_positions("by_key", "scores")(lambda config, bidirectional: Bias(False))
    register_positions("turned", "queries_and_keys")(lambda config, bidirectional: Turned(config.d_head))


@pytest.mark.parametrize("kind", ["decoder_only", "encoder_decoder"])
def test_registered_positions_are_shown_as_their_module_gives_them(forced_pass, registered, kind):
    table = shown(forced_pass, "table", kind)
    assert (table.scheme, table.d, table.bias) == ("table", 16, None)
    assert torch.equal(table.table, Table(SimpleNamespace(d_model=16), True).table[:12])
    turned = shown(forced_pass, "turned", kind)
    assert turned.scheme == "turned"
    assert torch.equal(turned.table, Turned(4)(_vector(12))[0, 0])
    for name in ("by_distance", "by_key"):
        bias = shown(forced_pass, name, kind)
        assert (bias.scheme, bias.table) == (name, None)
        assert torch.equal(bias.bias, Bias(name == "by_distance")(12, 12)[0])
        assert ("not on their distance alone" in bias.note) == (name == "by_key")


def test_a_bias_of_fewer_axes_is_shown_as_that_of_all(forced_pass, registered):
    """It may leave out axes that all share."""
    for axes in (2, 3):
        whole = Bias(True)(12, 12)[:, :1] if axes == 2 else Bias(True)(12, 12)
        register_positions("fewer", "scores")(lambda config, bidirectional, axes=axes: OfAxes(axes))
        found = shown(forced_pass, "fewer", "decoder_only")
        assert torch.equal(found.bias.expand_as(whole[0]), whole[0])
        assert "not on their distance alone" not in found.note


class OfAxes(nn.Module):
    """A bias of heads, queries and keys, or of queries and keys alone."""

    def __init__(self, axes):
        super().__init__()
        self.axes = axes

    def forward(self, queries, keys):
        return Bias(True)(queries, keys)[(0,) * (4 - self.axes)]


def _vector(length):
    vector = torch.zeros(1, 1, length, 4)
    vector[..., :2] = 1.0
    return vector


def test_a_bias_that_distance_does_not_decide_is_drawn_as_a_matrix(tmp_path):
    pytest.importorskip("matplotlib")
    for name, by_distance in (("line", True), ("matrix", False)):
        draw_positions(tmp_path / f"{name}.svg", bias=Bias(by_distance)(12, 12)[0].numpy())
    line, matrix = ((tmp_path / f"{name}.svg").read_text("utf-8") for name in ("line", "matrix"))
    assert "bias of a score, in both directions" in line
    assert "bias of a score" not in matrix
    for head in range(4):
        assert f"bias of head {head}" in matrix


def test_a_look_has_the_positions_and_the_bias_of_a_registered_encoding(decoder_folder, registered):
    result = look("To be", decoder_folder(positions="by_key", num_heads=4), device="cpu", max_new_tokens=5)
    assert result.get("positions")["scheme"] == "by_key"
    assert result.get("positions/bias").shape[0] == 4
    bias = torch.from_numpy(result.get("bias/blocks.0.self_attention"))
    assert torch.equal(bias, Bias(False)(bias.size(1), bias.size(2))[0])


def test_a_page_with_its_model_refuses_a_bias_that_distance_does_not_decide(forced_pass, registered):
    page_positions(forced_pass("decoder_only", positions="by_distance").model)
    with pytest.raises(NotExpressible, match="cannot compute positions = 'by_key'"):
        page_positions(forced_pass("decoder_only", positions="by_key").model)
