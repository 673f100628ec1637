"""Small models of three kinds, with parts that a test chooses."""

from regard.models.build import build_model
from regard.models.decoder_only import DecoderOnlyConfig
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig

SIZES = {"d_model": 16, "num_heads": 4, "d_ff": 32}


def decoder(**settings):
    return build_model(DecoderOnlyConfig(vocab_size=11, num_layers=1, **SIZES, **settings), seed=0)


def encoder(**settings):
    head = {"head": "masked_language_model"}
    return build_model(EncoderOnlyConfig(vocab_size=11, num_layers=1, **SIZES, **head, **settings), seed=0)


def translation(**settings):
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    config = EncoderDecoderConfig(src_vocab_size=11, tgt_vocab_size=11, **layers, **SIZES, **settings)
    return build_model(config, seed=0)
