"""A model with more tokens computes the same for the old ones, and puts out none of the new ones."""

import math

import pytest
import torch

from regard.data.tokenizer import TokenizerPair
from regard.data.tokenizer_extension import ExtensionSettings, extend_tokenizer, old_pieces
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.errors import FolderError
from regard.models.build import MODELS, build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.recurrent import RecurrentConfig
from regard.weights.model_folder import LoadedModel
from regard.weights.tensors import restore_model
from regard.weights.vocabulary_growth import FIRST_SHARE, _grown, grown_weights

OLD = ["the old house in the old town", "a mouse and a house, and 3 cats"] * 3
NEW = [">>cs<< kočka leží na domě", ">>cs<< starý dům, kočka leží"] * 3
OTHER = ["das alte haus und die stadt"] * 3
EXTENSION = ExtensionSettings(size=30, tokens=(">>cs<<",))
SIZES = {"d_model": 16, "num_heads": 2, "d_ff": 32}
DEEP = {**SIZES, "num_encoder_layers": 1, "num_decoder_layers": 1}


def tokenizer(texts):
    return train_tokenizer(texts, "bpe", TokenizerSettings(vocab_size=60))


SOURCE, TARGET = tokenizer(OLD), tokenizer(OTHER)
JOINT = TokenizerPair(SOURCE, SOURCE)
SEPARATE = TokenizerPair(SOURCE, TARGET)


def extended(pair):
    source = extend_tokenizer(pair.source, EXTENSION, NEW)
    return TokenizerPair(source, source if pair.joint else extend_tokenizer(pair.target, EXTENSION, NEW))


def loaded(config, pair, tmp_path):
    model = build_model(config, seed=1).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases too are not zero
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
    return LoadedModel(
        model=model, config=config, tokenizer_pair=pair, labels=(), generation={}, path=tmp_path
    )


def grown(before, after, **changes):
    """The model of the extended vocabulary, and its tokenisers."""
    sizes = {"src_vocab_size": after.source, "tgt_vocab_size": after.target, "vocab_size": after.source}
    settings = before.config.to_dict() | changes
    settings |= {name: side.vocab_size for name, side in sizes.items() if name in settings}
    if "output_bias" in settings:
        settings["output_bias"] = True
    model = build_model(type(before.config).from_dict(settings), seed=9).eval()
    weights = grown_weights(before, after)
    restore_model(model, weights.tensors)
    return model, weights


@pytest.mark.parametrize("tied", ["all", "target", "embeddings", "none"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", ["joint", "separate", "recurrent"])
def test_an_encoder_decoder_gives_old_text_the_same_logits(kind, tied, bias, tmp_path):
    if tied in {"joint": (), "separate": ("all", "embeddings"), "recurrent": ("embeddings",)}[kind]:
        pytest.skip("there is no such model")
    pair = SEPARATE if kind == "separate" else JOINT
    sizes = {"src_vocab_size": pair.source.vocab_size, "tgt_vocab_size": pair.target.vocab_size}
    settings = {**sizes, "tied": tied, "output_bias": bias}
    if kind == "recurrent":
        config = RecurrentConfig(**settings, d_model=16, d_embedding=8, attention="additive")
    else:
        config = EncoderDecoderConfig(**settings, **DEEP)
    before, after = loaded(config, pair, tmp_path), extended(pair)
    model, _ = grown(before, after)
    source = torch.tensor([pair.source.encode(OLD[0])])
    target = torch.tensor([[2, *pair.target.encode(OTHER[0] if kind == "separate" else OLD[1])]])
    assert source.tolist() == [after.source.encode(OLD[0])]
    lengths = torch.tensor([source.size(1)])
    with torch.no_grad():
        compare(before.model(source, lengths, target), model(source, lengths, target))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("softcap", [None, 30.0])
def test_a_language_model_gives_old_text_the_same_logits(tied, softcap, tmp_path):
    config = DecoderOnlyConfig(
        vocab_size=SOURCE.vocab_size, tied=tied, logit_softcap=softcap, num_layers=1, **SIZES
    )
    before = loaded(config, JOINT, tmp_path)
    model, _ = grown(before, extended(JOINT))
    ids = torch.tensor([SOURCE.encode(OLD[1])])
    with torch.no_grad():
        compare(before.model(ids), model(ids), capped=softcap is not None)


@pytest.mark.parametrize(("head", "labels"), [("masked_language_model", 0), ("classification", 3)])
def test_an_encoder_gives_old_text_the_same_outputs(head, labels, tmp_path):
    config = EncoderOnlyConfig(
        vocab_size=SOURCE.vocab_size, head=head, num_labels=labels, num_layers=1, **SIZES
    )
    before = loaded(config, JOINT, tmp_path)
    model, _ = grown(before, extended(JOINT))
    ids = torch.tensor([SOURCE.encode(OLD[1])])
    lengths = torch.tensor([ids.size(1)])
    with torch.no_grad():
        old, new = before.model(ids, lengths), model(ids, lengths)
    if labels:
        assert torch.equal(old, new)
    else:
        compare(old, new)


def compare(old, new, *, capped=False):
    """Old logits are equal, and new tokens improbable. Only roundings of the product may differ."""
    size = old.size(-1)
    assert new.size(-1) > size
    torch.testing.assert_close(new[..., :size], old, rtol=0, atol=1e-5)
    assert torch.equal(new.argmax(-1), old.argmax(-1))
    assert (new[..., size:].amax(-1) < old.amax(-1)).all(), "a mean, less a positive number"
    if not capped:
        shares = new.softmax(-1)
        assert (shares[..., size:].sum(-1) <= FIRST_SHARE * shares[..., :size].amax(-1)).all()


def test_new_rows_are_means_of_old_pieces_and_old_rows_are_copies(tmp_path):
    sizes = {"src_vocab_size": SOURCE.vocab_size, "tgt_vocab_size": TARGET.vocab_size}
    before = loaded(EncoderDecoderConfig(**sizes, **DEEP, tied="none", output_bias=True), SEPARATE, tmp_path)
    after = extended(SEPARATE)
    own, weights = before.model.state_dict(), grown_weights(before, after)
    sides = {
        "encoder.input.embedding.weight": (SOURCE, after.source),
        "decoder.input.embedding.weight": (TARGET, after.target),
        "output.weight": (TARGET, after.target),
        "output.bias": (TARGET, after.target),
    }
    assert set(weights.names) == set(sides)
    assert all(torch.equal(weights.tensors[name], own[name]) for name in own if name not in sides)
    for name, (old, new) in sides.items():
        weight, count = weights.tensors[name], new.vocab_size - old.vocab_size
        assert torch.equal(weight[: old.vocab_size], own[name])
        for row, ids in zip(weight[old.vocab_size :], old_pieces(old, new), strict=True):
            mean = own[name][ids or list(range(4, old.vocab_size))].mean(0)
            lower = math.log(count / FIRST_SHARE) if name == "output.bias" else 0.0
            torch.testing.assert_close(row, mean - lower)


def test_a_tokeniser_of_special_tokens_alone_can_be_extended(tmp_path):
    settings = TokenizerSettings(kind="wordpunct", min_count=100)
    old = train_tokenizer(OLD, "wordpunct", settings)
    assert old.vocab_size == 4
    new = extend_tokenizer(old, ExtensionSettings(size=5), NEW)
    config = EncoderOnlyConfig(vocab_size=4, **SIZES, num_layers=1, head="classification", num_labels=2)
    before = loaded(config, TokenizerPair(old, old), tmp_path)
    weights = grown_weights(before, TokenizerPair(new, new))
    [name] = weights.names
    rows = weights.tensors[name]
    assert rows.size(0) == new.vocab_size == 9
    assert torch.equal(rows[:4], before.model.state_dict()[name])
    torch.testing.assert_close(rows[4:], rows[:4].mean(0).expand(5, -1))


def test_a_model_that_generates_without_an_output_bias_is_refused(tmp_path, monkeypatch):
    class OtherConfig(EncoderDecoderConfig):
        kind = "other"

        def to_dict(self):
            return {name: value for name, value in super().to_dict().items() if name != "output_bias"}

    sizes = {"src_vocab_size": SOURCE.vocab_size, "tgt_vocab_size": SOURCE.vocab_size}
    monkeypatch.setitem(MODELS.added, "other", (OtherConfig, MODELS["encoder_decoder"][1]))
    before = loaded(OtherConfig(**sizes, **DEEP), JOINT, tmp_path)
    with pytest.raises(FolderError, match="the outputs of a model of kind 'other' have no bias"):
        grown_weights(before, extended(JOINT))


def test_a_weight_without_a_row_for_each_token_is_refused():
    shares = torch.tensor([[0.5, 0.5]])
    assert _grown(torch.tensor([[1.0], [3.0]]), shares).tolist() == [[1.0], [3.0], [2.0]]
    with pytest.raises(
        FolderError, match=r"a weight of shape \[3, 1\] has no row for each of 2 tokens"
    ) as caught:
        _grown(torch.ones(3, 1), shares)
    assert caught.value.hint
