"""All documented tables of Hugging Face families, in their order on the page."""

from tests.parity import (
    decoder_settings,
    encoder_decoder_settings,
    encoder_settings,
    image_text_settings,
    vision_and_speech_settings,
)

TABLES = (
    *decoder_settings.TABLES,
    *encoder_settings.TABLES,
    *encoder_decoder_settings.TABLES,
    *vision_and_speech_settings.TABLES,
    *image_text_settings.TABLES,
)
