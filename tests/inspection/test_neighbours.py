"""Neighbours are those with the greatest cosine, and never the token itself."""

import pytest
import torch
import torch.nn.functional as F

from regard.inspection.neighbours import nearest, nearest_neighbours


def test_they_are_those_with_the_greatest_cosine():
    table = torch.randn(40, 8, generator=torch.Generator().manual_seed(0))
    for token, found in zip([3, 17, 3], nearest(table, [3, 17, 3], 5), strict=True):
        cosines = F.cosine_similarity(table[token], table)
        order = [each for each in cosines.argsort(descending=True).tolist() if each != token]
        assert [each.id for each in found] == order[:5]
        assert [each.cosine for each in found] == pytest.approx(cosines[order[:5]].tolist(), abs=1e-6)


def test_a_small_vocabulary_has_few_and_padding_is_near_to_none():
    table = torch.tensor([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    (of_padding, of_one) = nearest(table, [0, 1], 8)
    assert [each.cosine for each in of_padding] == [0.0, 0.0, 0.0]
    assert [each.id for each in of_one] == [2, 0, 3]
    assert [each.cosine for each in of_one] == pytest.approx([1.0, 0.0, -1.0])


@pytest.mark.parametrize("kind", ["encoder_decoder", "decoder_only", "encoder_only", "recurrent"])
def test_every_sequence_that_is_read_has_them(forced_pass, kind):
    forced = forced_pass(kind)
    found = nearest_neighbours(forced, count=4)
    assert set(found) == set(forced.sequences) - {"written"}
    for name, of_each in found.items():
        assert len(of_each) == len(forced.sequences[name])
        assert all(len(each) == 4 for each in of_each)
        for token, each in zip(forced.sequences[name], of_each, strict=True):
            assert token not in [neighbour.id for neighbour in each]


def test_source_and_target_have_tables_of_their_own(forced_pass):
    forced = forced_pass("encoder_decoder", tied="none")
    for name, part in (("source", forced.model.encoder), ("read", forced.model.decoder)):
        expected = nearest(part.input.embedding.weight, forced.sequences[name])
        assert nearest_neighbours(forced)[name] == expected
