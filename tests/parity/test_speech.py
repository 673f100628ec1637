"""Whisper with random weights and odd sizes computes what it computes in transformers."""

import pytest
import torch

from regard.models.speech_to_text import SpeechToText
from regard.weights.pretrained import load_pretrained
from tests.whisper_folder import CONFIG, VOCAB, whisper

pytest.importorskip("transformers")
ODD = {
    "as it is": {},
    "one head each": {"encoder_attention_heads": 1, "decoder_attention_heads": 1},
    "many heads": {"encoder_attention_heads": 8, "decoder_attention_heads": 16},
    "one layer and five": {"encoder_layers": 1, "decoder_layers": 5},
    "narrow and wide": {"encoder_ffn_dim": 1, "decoder_ffn_dim": 133},
    "few positions": {"max_target_positions": 9, "num_mel_bins": 3},
    "scaled": {"scale_embedding": True, "activation_function": "gelu_new"},
    "wide": {"d_model": 96, "num_mel_bins": 80, "activation_function": "relu"},
}


@pytest.mark.parametrize("changes", ODD.values(), ids=ODD)
@torch.no_grad()
def test_the_logits_are_those_of_transformers(tmp_path, changes):
    theirs = whisper(tmp_path, config=changes)
    ours = load_pretrained(tmp_path).loaded.model
    assert isinstance(ours, SpeechToText)
    generator = torch.Generator().manual_seed(1)
    mels = {**CONFIG, **changes}["num_mel_bins"]
    features = torch.randn(2, mels, 100, generator=generator)
    ids = torch.randint(VOCAB, (2, 9), generator=generator)
    expected = theirs(features, decoder_input_ids=ids)
    frames = features.transpose(1, 2)
    memory = ours.encode(frames)
    for found, wanted in (
        (memory.hidden, expected.encoder_last_hidden_state),
        (ours(frames, ids), expected.logits),
    ):
        assert (found - wanted).abs().max() < 1e-5 * wanted.abs().max()
