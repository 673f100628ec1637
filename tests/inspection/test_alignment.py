"""An alignment is the attention of a model to its source."""

import pytest
import torch

from regard.data.batch import collate
from regard.data.synthetic import synthetic_pairs
from regard.errors import ConfigError, DataError
from regard.inspection.alignment import (
    align,
    align_by_best_layer,
    alignment_scores,
    best_links,
    clearest_alignment,
    clearness,
    pharaoh,
    read_pharaoh,
)
from regard.inspection.passes import AttentionSite
from regard.inspection.record import record_attention
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig
from regard.training.objective import CrossEntropy

SOURCE, TARGET = [4, 5, 6, 7], [8, 9, 10]


@pytest.fixture
def model():
    config = EncoderDecoderConfig(
        src_vocab_size=11,
        tgt_vocab_size=11,
        d_model=16,
        num_heads=4,
        d_ff=32,
        num_encoder_layers=1,
        num_decoder_layers=3,
    )
    return build_model(config, seed=1).eval()


def test_rows_are_target_tokens_and_columns_source_tokens(model):
    weights = align(model, SOURCE, TARGET, bos_id=2, eos_id=3)
    assert weights.shape == (3, 4)
    assert (weights >= 0).all()
    assert (weights.sum(dim=1) < 1).all(), "the weight on the end token is left out"


def test_a_row_is_what_was_looked_at_before_its_token_was_known(model):
    weights = align(model, SOURCE, TARGET, bos_id=2, eos_id=3)
    other = align(model, SOURCE, [8, 9, 4], bos_id=2, eos_id=3)
    torch.testing.assert_close(weights, other)
    first_other = align(model, SOURCE, [7, 9, 10], bos_id=2, eos_id=3)
    torch.testing.assert_close(weights[0], first_other[0])
    assert not torch.allclose(weights[1], first_other[1])


def test_layer_and_heads_are_those_asked_for(model):
    with torch.no_grad(), record_attention(model) as recording:
        model(torch.tensor([[*SOURCE, 3]]), torch.tensor([5]), torch.tensor([[2, *TARGET]]))
    for layer, name in ((-1, "decoder.blocks.2"), (0, "decoder.blocks.0"), (-2, "decoder.blocks.1")):
        heads = recording.last_weights(f"{name}.cross_attention")[0, :, :-1, :-1]
        found = align(model, SOURCE, TARGET, bos_id=2, eos_id=3, layer=layer)
        torch.testing.assert_close(found, heads.mean(dim=0))
        found = align(model, SOURCE, TARGET, bos_id=2, eos_id=3, layer=layer, heads=[1, 3])
        torch.testing.assert_close(found, heads[[1, 3]].mean(dim=0))


def test_the_model_is_left_as_it_was(model):
    for training in (True, False):
        model.train(training)
        first = align(model, SOURCE, TARGET, bos_id=2, eos_id=3)
        assert model.training is training
        assert torch.equal(first, align(model, SOURCE, TARGET, bos_id=2, eos_id=3)), "no dropout"
    assert all(parameter.grad is None for parameter in model.parameters())


def test_an_empty_text_has_an_empty_alignment(model):
    assert align(model, SOURCE, [], bos_id=2, eos_id=3).shape == (0, 4)
    assert align(model, [], TARGET, bos_id=2, eos_id=3).shape == (3, 0)


def recurrent(**options):
    config = RecurrentConfig(src_vocab_size=11, tgt_vocab_size=11, d_model=16, d_embedding=8, **options)
    return build_model(config, seed=1).eval()


@pytest.mark.parametrize(
    ("attention", "input_feeding"),
    [("additive", False), ("dot", False), ("general", True), ("concat", False), ("concat", True)],
)
def test_a_recurrent_model_has_an_alignment_too(attention, input_feeding):
    model = recurrent(attention=attention, input_feeding=input_feeding)
    weights = align(model, SOURCE, TARGET, bos_id=2, eos_id=3)
    assert weights.shape == (3, 4)
    assert (weights > 0).all()
    assert (weights.sum(dim=1) < 1).all(), "the weight on the end token is left out"
    other = align(model, SOURCE, [8, 9, 4], bos_id=2, eos_id=3)
    torch.testing.assert_close(weights, other)


def test_a_model_without_attention_has_no_alignment():
    for ask in (align, align_by_best_layer):
        with pytest.raises(ConfigError, match="no attention to its source"):
            ask(recurrent(), SOURCE, TARGET, bos_id=2, eos_id=3)


LENGTH, SYMBOLS, MARKS = 8, 10, 4


def sequences(split, size):
    pairs = synthetic_pairs("reverse", size=size, seed=1, split=split, length=LENGTH, symbols=SYMBOLS)
    return [[[MARKS + int(symbol) for symbol in text.split()] for text in pair] for pair in pairs]


@pytest.fixture(scope="module")
def reverser():
    """200 updates of 64 sequences: seconds."""
    size = MARKS + SYMBOLS
    config = EncoderDecoderConfig(
        src_vocab_size=size,
        tgt_vocab_size=size,
        d_model=32,
        num_heads=1,
        d_ff=64,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=0.0,
    )
    model, objective, updates, rows = build_model(config, seed=0), CrossEntropy(), 200, 64
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=updates, pct_start=0.2)
    pairs = sequences("train", updates * rows)
    for start in range(0, len(pairs), rows):
        sources, targets = zip(*pairs[start : start + rows], strict=True)
        batch = collate(
            [[*ids, 3] for ids in sources], [[2, *ids, 3] for ids in targets], range(1, rows + 1), pad_id=0
        )
        loss = objective(model, batch)
        optimizer.zero_grad()
        (loss.total / loss.num_targets).backward()
        optimizer.step()
        schedule.step()
    return model.eval()


def test_a_model_that_reverses_attends_along_the_other_diagonal(reverser):
    """The classic picture: position i attends to the mirrored position."""
    maps = [align(reverser, *pair, bos_id=2, eos_id=3) for pair in sequences("test", 20)]
    mirrored = torch.stack(maps).flip(2).diagonal(dim1=1, dim2=2)
    assert mirrored.mean() > 0.5
    assert (mirrored.mean(dim=0) > 0.5).all(), "at each place"


def test_its_links_are_those_of_reversing(reverser):
    links, reference = [], []
    for number, (source, target) in enumerate(sequences("test", 20)):
        found = align_by_best_layer(reverser, source, target, bos_id=2, eos_id=3)
        torch.testing.assert_close(found.weights, align(reverser, source, target, bos_id=2, eos_id=3))
        assert found.why == "it is the only layer with attention to the source"
        links += [(number, *link) for link in found.links()]
        reference += [(number, LENGTH - 1 - place, place) for place in range(LENGTH)]
    right = len(set(links) & set(reference))
    assert right / len(links) >= 0.9


# The clearest layer


def cross(layer):
    return AttentionSite(
        name=f"cross{layer}", part="cross", layer=layer, num_heads=2, rows="read", columns="source"
    )


def with_ends(weights):
    """The same with a row and a column for the end tokens, which attend to each other."""
    wide = torch.zeros(len(weights), weights.size(1) + 1, weights.size(2) + 1)
    wide[:, :-1, :-1] = weights
    wide[:, -1, -1] = 1
    return wide


DIAGONAL = torch.eye(4).expand(2, 4, 4)
FLAT = torch.full((2, 4, 4), 0.25)
ONE = torch.eye(4)[:1].expand(2, 4, 4)  # all at the first token
APART = torch.stack([torch.eye(4).roll(1, 1), torch.eye(4).roll(2, 1)])  # heads that do not agree


@pytest.mark.parametrize("other", [FLAT, ONE, APART, DIAGONAL * 0.4], ids=["flat", "one", "apart", "end"])
@pytest.mark.parametrize("place", [0, 1])
def test_the_layer_is_chosen_that_is_sharp_and_covers_the_source(other, place):
    layers = [other, other]
    layers[place] = DIAGONAL
    weights = {f"cross{layer}": with_ends(each) for layer, each in enumerate(layers)}
    found = clearest_alignment(weights, [cross(0), cross(1)])
    assert (found.name, found.layer, found.heads) == (f"cross{place}", place, None)
    assert f"1.00 (layer {1 - place}: 0." in found.why
    assert found.links() == {(0, 0), (1, 1), (2, 2), (3, 3)}


def test_clearness_is_between_nothing_and_one():
    assert clearness(torch.eye(4)) == 1
    assert clearness(torch.zeros(4, 4)) == 0
    assert clearness(torch.zeros(0, 4)) == 0
    assert clearness(FLAT[0]) == 0.25
    assert clearness(ONE[0]) == 0.25


def test_a_model_without_cross_attention_has_no_clearest_layer():
    encoder = AttentionSite(name="self", part="encoder", layer=0, num_heads=2, rows="text", columns="text")
    with pytest.raises(ConfigError, match="no cross-attention"):
        clearest_alignment({"self": FLAT}, [encoder])


# Links

WEIGHTS = torch.tensor([[0.7, 0.2, 0.0], [0.6, 0.4, 0.0], [0.1, 0.2, 0.1], [0.0, 0.1, 0.8]])


def test_a_row_links_its_best_column_unless_the_end_token_has_more():
    assert best_links(WEIGHTS) == {(0, 0), (0, 1), (2, 3)}
    assert best_links(torch.zeros(0, 3)) == best_links(torch.zeros(3, 0)) == frozenset()


def test_pharaoh_is_written_and_read():
    links = best_links(WEIGHTS)
    assert pharaoh(links) == "0-0 0-1 2-3"
    assert read_pharaoh(pharaoh(links)) == links
    assert read_pharaoh("") == frozenset()
    for wrong in ("0-", "0 1", "a-b", "0-1-2", "-1-2", "0:1"):
        with pytest.raises(DataError, match="is not an alignment"):
            read_pharaoh(wrong)


def test_scores_are_those_of_och_and_ney():
    found = alignment_scores([(0, 0), (1, 1), (2, 2), (3, 0)], sure=[(0, 0), (1, 2)], possible=[(1, 1)])
    assert found.precision == 2 / 4
    assert found.recall == 1 / 2
    assert found.error_rate == pytest.approx(1 - (2 + 1) / (4 + 2))
    perfect = alignment_scores([(0, 0)], [(0, 0)])
    assert (perfect.precision, perfect.recall, perfect.error_rate) == (1, 1, 0)
    empty = alignment_scores([], [])
    assert (empty.precision, empty.recall, empty.error_rate) == (None, None, None)
