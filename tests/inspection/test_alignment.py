"""An alignment tells where a model looks as it writes."""

import pytest
import torch

from regard.errors import ConfigError
from regard.inspection.alignment import align
from regard.inspection.record import record_attention
from regard.models.build import build
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.recurrent import RecurrentConfig

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
    return build(config, seed=1).eval()


def test_rows_are_target_tokens_and_columns_source_tokens(model):
    weights = align(model, SOURCE, TARGET, bos_id=2, eos_id=3)
    assert weights.shape == (3, 4)
    assert (weights >= 0).all()
    assert (weights.sum(dim=1) < 1).all(), "the share of the end mark is left out"


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
        heads = recording.last(f"{name}.cross_attention")[0, :, :-1, :-1]
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
    return build(config, seed=1).eval()


@pytest.mark.parametrize(
    ("attention", "input_feeding"),
    [("additive", False), ("dot", False), ("general", True), ("concat", False), ("concat", True)],
)
def test_a_recurrent_model_has_an_alignment_too(attention, input_feeding):
    model = recurrent(attention=attention, input_feeding=input_feeding)
    weights = align(model, SOURCE, TARGET, bos_id=2, eos_id=3)
    assert weights.shape == (3, 4)
    assert (weights > 0).all()
    assert (weights.sum(dim=1) < 1).all(), "the share of the end mark is left out"
    other = align(model, SOURCE, [8, 9, 4], bos_id=2, eos_id=3)
    torch.testing.assert_close(weights, other)


def test_a_model_without_attention_has_no_alignment():
    with pytest.raises(ConfigError, match="no attention to its source"):
        align(recurrent(), SOURCE, TARGET, bos_id=2, eos_id=3)
