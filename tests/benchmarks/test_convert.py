"""A converted model has the outputs of regard's."""

import pytest
import torch

from benchmarks.common.unfit import Unfit
from benchmarks.convert.to_ctranslate2 import write_model
from benchmarks.convert.to_torch import transformer_weights
from benchmarks.decoding.sentences import Sentences
from benchmarks.language.nanogpt import made
from benchmarks.training.plain import Translator
from regard.data.batch import collate
from regard.decoding.batches import decode_all
from regard.decoding.settings import GenerationSettings
from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig

PIECES = ["<pad>", "<unk>", "<s>", "</s>", *(chr(97 + number) for number in range(16))]
PAIRS = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_encoder_layers": 2, "num_decoder_layers": 2}
TEXTS = {"d_model": 16, "num_heads": 2, "d_ff": 32, "num_layers": 2, "max_positions": 24}


def pair_model(**settings):
    config = EncoderDecoderConfig(
        src_vocab_size=len(PIECES), tgt_vocab_size=len(PIECES), **{**PAIRS, **settings}
    )
    return config, build_model(config, seed=1).eval()


@pytest.mark.filterwarnings("ignore::UserWarning")  # of nested tensors, which torch tries by itself
@pytest.mark.parametrize("norm_position", ["pre", "post"])
def test_torch_transformer_has_the_same_logits(norm_position):
    config, model = pair_model(norm_position=norm_position)
    other = Translator(config).eval()
    other.load_state_dict(transformer_weights(config, model.state_dict()))
    batch = collate([[4, 5, 6, 3], [7, 3]], [[2, 4, 3], [2, 8, 9, 10, 3]], [1, 2], pad_id=0)
    real = batch.labels != 0
    ours = model(batch.src_ids, batch.src_lengths, batch.tgt_input)[real]
    torch.testing.assert_close(other(batch)[real], ours, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")  # its imports warn of kernels for GPUs and of what is deprecated
def test_eole_has_the_same_logits():
    pytest.importorskip("eole")
    from benchmarks.convert import to_eole

    config, model = pair_model(norm_position="pre")
    other = to_eole.pair_model(config, model.state_dict(), to_eole.vocabularies_of(PIECES)).eval()
    src, lengths = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([4, 2])
    target = torch.tensor([[2, 8, 9, 10, 3], [2, 4, 11, 5, 3]])
    ours = model(src, lengths, target[:, :-1])
    theirs = other.generator(other(src, target, lengths).dec_out)
    torch.testing.assert_close(theirs, ours, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_eole_translates_the_same():
    pytest.importorskip("eole")
    from benchmarks.decoding.eole import Eole

    config, model = pair_model(norm_position="pre")
    sources = [[4, 5, 6], [7], [8, 9, 10, 11, 12]]
    eole = object.__new__(Eole)  # without the model folder that others are read from
    eole.sentences = Sentences(
        model="", converted="", texts=[], ids=sources, vocabulary=PIECES, lengths=[], limits=[], alpha=1.0
    )
    eole.take(config, model.state_dict())
    decoding = GenerationSettings(beam_size=1, min_length=6, max_length=6)
    ours = [found[0].ids for found in decode_all(decoding.strategy(), model, sources)]
    assert eole.decode([0, 1, 2], 1, 6) == ours


@pytest.mark.parametrize("settings", [{"norm_position": "pre"}, {"norm_position": "post"}])
def test_ctranslate2_translates_the_same(settings, tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    config, model = pair_model(**settings)
    folder = write_model(config, model.state_dict(), PIECES, tmp_path / "model")
    sources = [[4, 5, 6], [7], [8, 9, 10, 11, 12]]
    decoding = GenerationSettings(beam_size=1, min_length=6, max_length=6)
    ours = [found[0].ids for found in decode_all(decoding.strategy(), model, sources)]
    found = ctranslate2.Translator(str(folder), intra_threads=1).translate_batch(
        [[PIECES[number] for number in source] for source in sources],
        beam_size=1,
        min_decoding_length=6,
        max_decoding_length=6,
        suppress_sequences=[["<pad>"], ["<s>"]],
    )
    theirs = [[PIECES.index(piece) for piece in each.hypotheses[0]] for each in found]
    assert theirs == ours


def test_a_plain_gpt_and_ctranslate2_have_the_same_logits(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2")
    config = DecoderOnlyConfig(vocab_size=len(PIECES), bias=False, **TEXTS)
    model = build_model(config, seed=1).eval()
    ids = [2, 4, 9, 5, 11]
    ours = model(torch.tensor([ids]))[0].log_softmax(dim=-1).detach()
    plain = made(config, model.state_dict()).eval()(torch.tensor([ids]))[0].log_softmax(dim=-1)
    torch.testing.assert_close(plain, ours, atol=1e-5, rtol=1e-4)
    folder = write_model(config, model.state_dict(), PIECES, tmp_path / "model")
    (scored,) = ctranslate2.Generator(str(folder), intra_threads=1).score_batch(
        [[PIECES[number] for number in ids]]
    )
    expected = [float(row[number]) for row, number in zip(ours, ids[1:], strict=False)]
    assert scored.log_probs == pytest.approx(expected, abs=1e-4)


def test_a_shape_that_a_peer_has_not_is_refused_with_a_reason():
    config, model = pair_model(positions="rotary")
    with pytest.raises(Unfit, match="no positions = 'rotary', only 'sinusoidal'"):
        transformer_weights(config, model.state_dict())
