"""Small random models of every kind that can be looked into, each with a pass to look at."""

import pytest
import torch

BOS, EOS, VOCAB = 2, 3, 13
SOURCE, TARGET = [4, 5, 6, 7], [8, 9, 10]
SIZES = {"d_model": 16, "num_heads": 4, "d_ff": 32}
TRANSLATOR = {"src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, **SIZES}
TRANSLATOR |= {"num_encoder_layers": 2, "num_decoder_layers": 2}
WRITER = {"vocab_size": VOCAB, **SIZES, "num_layers": 2}
RECURRENT = {"src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "d_model": 16, "d_embedding": 8}


@pytest.fixture(scope="session")
def forced_pass():
    """Makes a pass through a model of this kind, whose weights are far enough from their beginning to differ.

    `changes` are settings of its config.
    """
    # not above: regard must be imported after the hook that checks its types
    from regard.inspection import passes
    from regard.models.build import build_model
    from regard.models.decoder_only import DecoderOnlyConfig
    from regard.models.encoder_decoder import EncoderDecoderConfig
    from regard.models.encoder_only import EncoderOnlyConfig
    from regard.models.recurrent import RecurrentConfig

    def made(kind, seed=0, **changes):
        match kind:
            case "encoder_decoder":
                config = EncoderDecoderConfig(**{**TRANSLATOR, **changes})
            case "recurrent":
                config = RecurrentConfig(**{**RECURRENT, "attention": "additive", **changes})
            case "decoder_only":
                config = DecoderOnlyConfig(**{**WRITER, **changes})
            case "encoder_only":
                config = EncoderOnlyConfig(**{**WRITER, "head": "masked_language_model", **changes})
        model = perturbed(build_model(config, seed=seed).eval())
        match kind:
            case "encoder_decoder" | "recurrent":
                return passes.translation_pass(model, SOURCE, TARGET, bos_id=BOS, eos_id=EOS)
            case "decoder_only":
                return passes.continuation_pass(model, [BOS, *SOURCE, *TARGET])
            case "encoder_only":
                return passes.encoder_pass(model, [BOS, *SOURCE, EOS])

    return made


@torch.no_grad()
def perturbed(model):
    """Biases and gains that are not 0 and 1, and answers that are not all equally likely."""
    torch.manual_seed(2)
    for parameter in model.parameters():
        parameter += 0.2 * torch.randn_like(parameter)
    return model
