"""Whisper with random weights and odd sizes computes what it computes in transformers."""

import pytest
import torch

from regard.models.speech_to_text import SpeechToText
from tests.parity.vision_and_speech_cases import SPEECH

pytest.importorskip("transformers")


@pytest.mark.parametrize("case", SPEECH, ids=str)
@torch.no_grad()
def test_the_logits_are_those_of_transformers(case, make):
    pair = make(case)
    ours = pair.ours
    assert isinstance(ours, SpeechToText)
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(2, pair.config.num_features, 100, generator=generator)
    ids = torch.randint(pair.config.vocab_size, (2, 9), generator=generator)
    expected = pair.theirs(features, decoder_input_ids=ids)
    frames = features.transpose(1, 2)
    memory = ours.encode(frames)
    for found, wanted in (
        (memory.hidden, expected.encoder_last_hidden_state),
        (ours(frames, ids), expected.logits),
    ):
        assert (found - wanted).abs().max() < 1e-5 * wanted.abs().max()
