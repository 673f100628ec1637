"""What the speech-to-text model keeps to: its windows, its cache, gradients, and what it refuses."""

import dataclasses

import pytest
import torch

from regard.errors import ConfigError
from regard.layers.positions import sinusoids
from regard.models.build import build_model, count_config_parameters, count_parameters
from regard.models.speech_to_text import SpeechToText, SpeechToTextConfig

CONFIG = SpeechToTextConfig(
    vocab_size=23, d_model=16, num_heads=2, num_encoder_heads=4, num_encoder_layers=2, num_decoder_layers=3,
    d_ff=20, d_ff_encoder=28, num_features=5, max_source_positions=6, max_positions=9, fft_size=400,
)  # fmt: skip
VARIANTS = {
    "whisper": {},
    "post": {"norm_position": "post"},
    "rotary": {"positions": "rotary"},
    "rms, gated": {"norm": "rms", "activation": "swiglu"},
}
FRAMES = torch.randn(2, 12, 5, generator=torch.Generator().manual_seed(0))
IDS = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def model(request) -> SpeechToText:
    model = build_model(dataclasses.replace(CONFIG, **request.param), seed=0)
    assert isinstance(model, SpeechToText)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


@torch.no_grad()
def test_steps_with_a_cache_give_what_reading_at_once_gives(model):
    at_once = model(FRAMES, IDS)
    assert at_once.shape == (2, 5, 23)
    cache = model.start(model.encode(FRAMES))
    steps = [model.extend(IDS[:, [place]], cache) for place in range(3)]
    torch.testing.assert_close(torch.cat([*steps, model.extend(IDS[:, 3:], cache)], dim=1), at_once)


@torch.no_grad()
def test_a_text_hears_the_whole_window_and_no_later_token(model):
    whole = model(FRAMES, IDS)
    for place in (0, 11):
        changed = FRAMES.clone()
        changed[:, place] += 1
        assert (model(changed, IDS) - whole).abs().amax(dim=-1).min() > 1e-6
    later = IDS.clone()
    later[:, 3] = 0
    found = model(FRAMES, later)
    torch.testing.assert_close(found[:, :3], whole[:, :3])
    assert not torch.allclose(found[:, 3], whole[:, 3])


def test_every_weight_learns_but_the_bias_of_keys_which_changes_nothing(model):
    model(FRAMES, IDS).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        if name.endswith("cross_attention.key.bias"):
            assert parameter.grad.abs().max() < 1e-3
        else:
            assert parameter.grad.abs().max() > 0, name


def test_a_new_encoder_has_sinusoids_and_the_output_the_embeddings():
    model = build_model(CONFIG, seed=0)
    assert isinstance(model, SpeechToText)
    assert torch.equal(model.encoder.positions.weight, sinusoids(0, 6, 16, "fairseq"))
    assert model.output.weight is model.decoder.input.embedding.weight
    assert count_parameters(model) == count_config_parameters(CONFIG)


def test_whisper_base_has_its_size():
    """72.6 million (Radford et al. 2023, table 1: 74), and a bias of 512 zeros for each of 18 keys."""
    assert count_config_parameters(SpeechToTextConfig(vocab_size=51865)) == 72_593_920 + 18 * 512


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_encoder_heads": 3}, "must be even, and divisible by num_encoder_heads"),
        ({"num_encoder_layers": 0}, "num_encoder_layers = 0 is too small"),
        ({"hop_length": 0}, "hop_length = 0 is too small"),
        ({"fft_size": 401}, "fft_size = 401 of 1920 samples is not possible"),
        ({"fft_size": 4000}, "fft_size = 4000 of 1920 samples is not possible"),
        ({"window_samples": 2080}, "have 13 frames, but max_source_positions"),
        ({"num_kv_heads": 1}, "a speech_to_text model has no setting num_kv_heads = 1"),
        ({"bias": False}, "a speech_to_text model has no setting bias = False"),
        ({"pad_id": 23}, "pad_id = 23 is not a token id"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(CONFIG, **settings)


def test_a_window_may_have_samples_that_are_no_frame():
    config = dataclasses.replace(CONFIG, window_samples=1999)
    assert (config.samples_at_once, config.window_frames, CONFIG.samples_at_once) == (1999, 12, 1920)
