"""Small random models with their tokenisers, for comparing an engine with regard."""

import random
from functools import cache
from pathlib import Path
from typing import Any

import torch

from regard.data.tokenizer import Tokenizer, TokenizerPair
from regard.data.tokenizer_training import TokenizerSettings, train_tokenizer
from regard.models.build import build_model, config_class
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.weights.model_folder import LoadedModel

WORDS = [a + b for a in "bdfgklm" for b in ("a", "e", "i")]
TEXTS = ["ba", "mi gi xx fa de ba"]
SIZES = {  # by kind: small, with as many layers as show an error of one
    "encoder_decoder": {"num_encoder_layers": 2, "num_decoder_layers": 2},
    "decoder_only": {"num_layers": 2, "max_positions": 64},
}
BASES: dict[str, dict[str, Any]] = {  # two recipes that differ in all that a row does not set
    "vaswani": {
        "d_model": 24, "num_heads": 4, "d_ff": 20, "norm": "layer", "norm_position": "post",
        "activation": "relu", "positions": "sinusoidal",
    },
    "llama": {
        "d_model": 20, "num_heads": 4, "head_dim": 6, "num_kv_heads": 2, "d_ff": 22, "norm": "rms",
        "norm_position": "pre", "activation": "swiglu", "positions": "rotary", "bias": False,
    },
}  # fmt: skip


@cache
def tokenizer(count: int = len(WORDS)) -> Tokenizer:
    """A tokeniser of so many words."""
    return train_tokenizer([" ".join(WORDS[:count])], "words", TokenizerSettings(kind="words", vocab_size=50))


def small_model(kind: str, base: str = "vaswani", *, joint: bool = True, **settings: Any) -> LoadedModel:
    """A model of random weights, so large that its outputs depend on the text."""
    source = tokenizer()
    target = source if joint else tokenizer(17)
    own = config_class(kind)  # of a registered kind, too
    translates = issubclass(own, EncoderDecoderConfig)
    sizes = (
        {"src_vocab_size": source.vocab_size, "tgt_vocab_size": target.vocab_size}
        if translates
        else {"vocab_size": target.vocab_size}
    )
    table = {**SIZES["encoder_decoder" if translates else "decoder_only"], **BASES[base], **settings}
    config = own.from_dict({**sizes, **table})
    model = build_model(config, seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += torch.randn(parameter.shape, generator=generator) * 0.15
    return LoadedModel(
        model=model,
        config=config,
        tokenizer_pair=TokenizerPair(source, target),
        labels=(),
        generation={},
        path=Path("small"),
    )


ALIBI: dict[str, Any] = {  # most settings at once, of an encoder-decoder; several tests use its graphs, too
    "positions": "alibi", "norm_position": "sandwich", "activation": "geglu", "num_kv_heads": 1,
    "d_model": 15, "head_dim": 5, "num_heads": 3, "qk_norm": True, "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}  # fmt: skip
SHARED: dict[str, tuple[str, dict[str, Any]]] = {  # tests of several files use the graphs, traced once
    "encoder_decoder": ("vaswani", {"num_encoder_layers": 1}),  # whose outputs often end
    "decoder_only": ("llama", {}),
}


def shared_model(kind: str) -> LoadedModel:
    """The model of each kind whose graphs several tests use; the decoder's weights are those of float16."""
    base, settings = SHARED[kind]
    loaded = small_model(kind, base, **settings)
    if kind == "decoder_only":
        for parameter in loaded.model.parameters():
            parameter.data = parameter.data.half().float()
    return loaded


def random_settings(kind: str, seed: int) -> dict[str, Any]:
    """Any settings that an engine has, together."""
    choose = random.Random(seed).choice
    heads, head_dim = choose([1, 2, 3, 4]), choose([4, 6, 10])
    of_kind = "t5" if kind == "encoder_decoder" else "alibi"
    settings: dict[str, Any] = {
        "d_model": choose([15, 16, 24]),
        "num_heads": heads,
        "head_dim": head_dim,
        "num_kv_heads": choose([None, 1, heads]),
        "d_ff": choose([7, 16]),
        "norm": choose(["layer", "rms"]),
        "norm_eps": choose([None, 1e-3]),
        "norm_position": choose(["post", "pre", "sandwich"]),
        "activation": choose(["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu", "geglu_tanh"]),
        "bias": choose([True, False]),
        "qk_norm": choose([True, False]),
        "attention_scale": choose([None, 0.4]),
        "positions": choose(["sinusoidal", "learned", "rotary", "none", of_kind]),
        "max_positions": 70,
        "position_offset": choose([0, 2]),
        "position_layout": choose(["interleaved", "split"]),
        "rotary_base": choose([100.0, 10000.0]),
        "scaled_embedding": choose([True, False]),
    }
    if kind == "decoder_only":
        parallel = choose([None, "one_norm", "two_norms"]) if settings["norm_position"] == "pre" else None
        head = {"tied": choose([True, False]), "output_bias": choose([True, False])}
        return {**settings, **head, "parallel_residual": parallel}
    return {
        **settings,
        "tied": choose(["all", "target", "embeddings", "none"]),
        "embedding_norm": choose([True, False]),
        "scaled_output": choose([True, False]),
        "output_bias": choose([True, False]),
    }
