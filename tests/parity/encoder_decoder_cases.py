"""Random encoder-decoders that are compared with transformers in all that they compute."""

from tests.parity.cases import cases

NARROW = {
    "vocab_size": 47, "d_model": 12, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 3,
    "decoder_attention_heads": 3, "encoder_ffn_dim": 17, "decoder_ffn_dim": 17, "max_position_embeddings": 16,
    "pad_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
OPUS = {**NARROW, "decoder_start_token_id": 1, "forced_eos_token_id": None}
ONE_LAYER = {"encoder_layers": 1, "decoder_layers": 1}
DENOISING = {**NARROW, "bos_token_id": 0, "decoder_start_token_id": 2, "forced_eos_token_id": None}
MARIAN = cases(
    "marian",
    {
        "scaled, swish": {"scale_embedding": True, "activation_function": "swish"},
        "one layer": {**ONE_LAYER, "vocab_size": 33, "activation_function": "relu"},
        "odd width": {"d_model": 15, "encoder_layers": 3, "decoder_layers": 1},
        "two vocabularies": {"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 39},
    },
    OPUS,
)
BART = cases(
    "bart",
    {
        "": {},
        "one layer": {**ONE_LAYER, "d_model": 21, "vocab_size": 53},
        "scaled": {"scale_embedding": True, "activation_function": "relu"},
    },
    DENOISING,
)
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
T5 = cases(
    "t5",
    {
        "": {},
        "one layer, few buckets": {
            "num_layers": 1, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 10,
            "vocab_size": 42,
        },
        "other depths": {"num_layers": 3, "num_decoder_layers": 1, "num_heads": 5, "d_kv": 4},
        "1.1": GATED,
        "1.1, one layer": {**GATED, "num_layers": 1, "d_kv": 9},
        "1.1, gated by silu": {**GATED, "num_heads": 2, "feed_forward_proj": "gated-silu"},
    },
    {
        "vocab_size": 51, "d_model": 14, "num_heads": 3, "d_kv": 6, "d_ff": 23, "num_layers": 2,
        "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
    },
)  # fmt: skip
M2M100 = cases(
    "m2m_100",
    {
        "": {},
        "one layer, unscaled, another gate and width": {
            **ONE_LAYER, "scale_embedding": False, "activation_function": "gelu", "d_model": 21,
        },
    },
    {**NARROW, "decoder_start_token_id": 2},
)  # fmt: skip
MBART = cases(
    "mbart",
    {
        "": {"scale_embedding": True},
        "one layer, starting with a language": {
            **ONE_LAYER, "decoder_start_token_id": 40, "activation_function": "relu",
        },
    },
    DENOISING,
)  # fmt: skip
PEGASUS = cases(
    "pegasus",
    {
        "": {"scale_embedding": True, "activation_function": "relu"},
        "other depths": {"encoder_layers": 1, "d_model": 15},
    },
    OPUS,
)
CASES = [*MARIAN, *BART, *T5, *M2M100, *MBART, *PEGASUS]
