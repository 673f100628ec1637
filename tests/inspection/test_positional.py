"""Every scheme shows what the model really does with positions."""

import pytest
import torch
import torch.nn.functional as F

from regard.inspection.positional import positions_of
from regard.layers.positions import sinusoids


def shown(forced_pass, scheme, kind="decoder_only", length=12, part="encoder", **changes):
    return positions_of(forced_pass(kind, positions=scheme, **changes).model, length, part=part)


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
