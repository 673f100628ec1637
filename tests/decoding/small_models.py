"""Small models with random weights, and texts for them, of the tests of running batches."""

import torch

from regard.fast.native import kernels
from regard.models.build import build_model
from regard.models.encoder_decoder import EncoderDecoderConfig

VOCAB = 40
SIZES = {"d_model": 32, "num_heads": 4, "d_ff": 48}
EXACT = kernels.available() or (
    torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2"
)


@torch.no_grad()
def perturbed(model):
    """The model with weights whose outputs differ much from token to token."""
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter += 0.2 * torch.randn(parameter.shape, generator=generator)
    return model.eval()


def translator(seed=1, **table):
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 2}
    sizes = {"src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, **SIZES, **layers, **table}
    return perturbed(build_model(EncoderDecoderConfig(**sizes), seed=seed))


def sentences(count, random_, most=30):
    return [[random_.randrange(4, VOCAB) for _ in range(random_.randrange(most))] for _ in range(count)]
