"""Encoders with a head: sizes as published, names that part encoder and head, settings that are refused."""

import pytest
import torch

from regard.errors import ConfigError
from regard.models.build import build_model, config_class, count_parameters
from regard.models.encoder_only import EncoderOnly, EncoderOnlyConfig

TINY = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_layers": 1}


def config(head="classification", **table):
    labels = {"num_labels": 3} if head in ("classification", "tokens") else {}
    return EncoderOnlyConfig.from_table({**TINY, **table}, vocab_size=20, head=head, **labels)


def parameters(preset: str, vocab_size: int, head: str = "pooled") -> int:
    shape = EncoderOnlyConfig.from_table({"preset": preset}, vocab_size=vocab_size, head=head)
    with torch.device("meta"):
        return count_parameters(EncoderOnly(shape))


def test_bert_has_the_parameters_of_bert():
    """Embeddings 23,837,184, twelve blocks of 7,087,872, the pooler 590,592."""
    assert parameters("bert-base", 30_522) == 109_482_240
    assert parameters("bert-tiny", 30_522) == 4_385_920


def test_the_head_of_a_masked_language_model_adds_its_transform_and_a_bias_a_token():
    """The embedding is tied: BERT's 109,514,298 for masked words are its encoder's 108,891,648 and this."""
    assert parameters("bert-base", 30_522, "none") == 108_891_648
    assert parameters("bert-base", 30_522, "masked_language_model") == 109_514_298


@pytest.mark.parametrize(("preset", "expected"), [("small", 1_354_752), ("modern", 1_353_472)])
def test_our_presets_have_the_parameters_that_they_had(preset, expected):
    assert parameters(preset, 8000) == expected


def test_the_encoder_and_the_head_are_named_apart():
    names = {name.split(".")[0] for name, _ in build_model(config()).named_parameters()}
    assert names == {"encoder", "head"}


def test_the_encoder_of_one_head_fits_beside_another():
    first, second = (
        build_model(config("masked_language_model"), seed=1),
        build_model(config("tokens"), seed=2),
    )
    second.encoder.load_state_dict(first.encoder.state_dict())
    ids, lengths = torch.tensor([[2, 5, 3]]), torch.tensor([3])
    assert torch.equal(first.eval().encode(ids, lengths), second.eval().encode(ids, lengths))


def test_a_tied_embedding_is_one_parameter():
    model = build_model(config("masked_language_model"))
    assert model.head.output.weight is model.encoder.input.embedding.weight


def test_embeddings_are_not_scaled():
    """BERT does not multiply by sqrt(d_model), as the paper's encoder-decoder does."""
    model = build_model(config("none", embedding_norm=False, positions="none", num_token_types=0)).eval()
    ids = torch.tensor([[4, 7]])
    assert torch.equal(model.encoder.input(ids)[0], model.encoder.input.embedding.weight[[4, 7]])


def test_a_fresh_head_is_marked():
    assert config().fresh_head
    assert EncoderOnlyConfig.from_dict(config().to_dict()).fresh_head


def test_the_kind_is_known():
    assert config_class("encoder_only") is EncoderOnlyConfig


def test_token_types_that_are_not_given_are_the_first():
    model = build_model(config()).eval()
    ids, lengths = torch.tensor([[2, 5, 3]]), torch.tensor([3])
    assert torch.equal(model(ids, lengths, torch.zeros_like(ids)), model(ids, lengths))
    assert not torch.allclose(model(ids, lengths, torch.ones_like(ids)), model(ids, lengths))


def test_token_types_are_refused_where_there_are_none():
    model = build_model(config(num_token_types=0))
    ids = torch.tensor([[2, 5, 3]])
    with pytest.raises(ValueError, match="num_token_types"):
        model(ids, torch.tensor([3]), torch.zeros_like(ids))


def test_learned_positions_end_somewhere_and_others_do_not():
    ids, lengths = torch.full((1, 600), 5), torch.tensor([600])
    model = build_model(config())
    assert model.max_length == 512
    with pytest.raises(ValueError, match="max_positions"):
        model(ids, lengths)
    model = build_model(config(positions="rotary"))
    assert model.max_length is None
    assert model(ids, lengths).isfinite().all()


@pytest.mark.parametrize(
    ("table", "sizes", "words"),
    [
        ({"num_layers": 0}, {}, "num_layers = 0"),
        ({"num_token_types": -1}, {}, "num_token_types"),
        ({"head_dropout": 1.0}, {}, "head_dropout"),
        ({"pad_id": 20}, {}, "pad_id"),
        ({"pooling": "median"}, {}, "median"),
        ({"preset": "bert-bass"}, {}, "bert-bass"),
        ({}, {"num_labels": 1}, "num_labels = 1"),
        ({}, {"num_labels": 0}, "num_labels = 0"),
        ({}, {"head": "spans"}, "head = 'spans'"),
        ({}, {"head": "classes"}, "classes"),
        ({"num_labels": 5}, {}, "cannot be set in a recipe"),
        ({"head": "tokens"}, {}, "cannot be set in a recipe"),
        ({"label_std": 0.0}, {}, "label_std"),
        ({"label_mean": float("nan")}, {}, "label_mean"),
    ],
)
def test_what_cannot_be_built_is_refused_by_name(table, sizes, words):
    with pytest.raises(ConfigError, match=words) as caught:
        EncoderOnlyConfig.from_table(
            {**TINY, **table}, **{"vocab_size": 20, "head": "classification", "num_labels": 3, **sizes}
        )
    assert caught.value.hint


@pytest.mark.parametrize(
    ("width", "message"),
    [(4, "is even"), (0, "is too small"), (999_999_999, "is too large"), (True, "wrong type")],
)
def test_a_convolution_without_a_middle_or_of_another_size_is_refused(width, message):
    table = {"preset": "modern", "input_convolution": width}
    with pytest.raises(ConfigError, match=f"input_convolution = {width}.*{message}"):
        EncoderOnlyConfig.from_table(table, vocab_size=30, head="none")
