"""Random decoders that are compared with transformers in all that they compute."""

from tests.parity.cases import SPECIAL_TOKENS, cases

GPT2 = cases(
    "gpt2",
    {
        "one layer": {"vocab_size": 53, "n_embd": 18, "n_head": 3, "n_layer": 1, "n_positions": 20},
        "narrow inside": {
            "vocab_size": 31, "n_embd": 10, "n_head": 5, "n_layer": 3, "n_inner": 7, "n_positions": 33,
        },
        "another gelu and eps": {
            "vocab_size": 64, "n_embd": 24, "n_head": 2, "n_layer": 2, "n_positions": 16,
            "activation_function": "gelu", "layer_norm_epsilon": 0.01,
        },
    },
    SPECIAL_TOKENS,
)  # fmt: skip
MODERN = {
    **SPECIAL_TOKENS, "vocab_size": 61, "hidden_size": 16, "intermediate_size": 21,
    "max_position_embeddings": 40,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 300.0, "factor": 4.0, "original_max_position_embeddings": 24}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 300.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 20,
}
LLAMA = cases(
    "llama",
    {
        "one layer, heads of their own width": {
            "num_attention_heads": 4, "num_key_value_heads": 1, "num_hidden_layers": 1, "head_dim": 6,
        },
        "grouped, another theta": {
            "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3,
            "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
        },
        "tied, all heads": {"num_attention_heads": 2, "num_hidden_layers": 2, "tie_word_embeddings": True},
    },
    MODERN,
)  # fmt: skip
SCALED = cases(  # with several frequencies in each part of the range
    "llama",
    {
        "llama3": {"rope_parameters": LLAMA3, "head_dim": 16, "attention_bias": True},
        "linear": {"rope_parameters": {"rope_type": "linear", "factor": 2.5}, "mlp_bias": True},
        "dynamic": {"rope_parameters": {"rope_type": "dynamic", "factor": 3.0}, "hidden_act": "gelu"},
        "yarn": {"rope_parameters": YARN, "head_dim": 24, "attention_bias": True, "mlp_bias": True},
        "yarn, untruncated, another factor of scores": {
            "rope_parameters": {
                **YARN, "truncate": False, "attention_factor": 0.7, "beta_fast": 3.0, "beta_slow": 0.5,
            },
            "head_dim": 24,
            "tie_word_embeddings": True,
        },
        "yarn, two scales": {
            "rope_parameters": {**YARN, "mscale": 0.8, "mscale_all_dim": 0.4}, "head_dim": 12,
        },
    },
    {**MODERN, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 2},
)  # fmt: skip
HEADS = {**MODERN, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2}
MISTRAL = cases(
    "mistral",
    {
        "a window": {"sliding_window": 3},
        "a window of two": {"num_key_value_heads": 1, "sliding_window": 2, "head_dim": 6},
        "no window": {"sliding_window": None, "tie_word_embeddings": True, "hidden_act": "gelu_new"},
    },
    HEADS,
)
QWEN2 = cases(
    "qwen2",
    {
        "grouped": {},
        "a window, tied": {
            "num_key_value_heads": 1, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 0,
            "tie_word_embeddings": True,
        },
        "windows in no layer, yarn": {
            "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2, "rope_parameters": YARN,
        },
        "windows of the last layers": {
            "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1,
        },
    },
    HEADS,
)  # fmt: skip
QWEN3 = cases(
    "qwen3",
    {
        "one layer": {
            "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1, "head_dim": 10,
        },
        "grouped": {
            "num_attention_heads": 6, "num_key_value_heads": 3, "num_hidden_layers": 3, "head_dim": 4,
        },
        "tied": {
            "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2, "head_dim": 8,
            "tie_word_embeddings": True, "rms_norm_eps": 1e-3,
        },
        "biases, a window": {
            **HEADS, "head_dim": 6, "attention_bias": True, "use_sliding_window": True, "sliding_window": 5,
            "max_window_layers": 0,
        },
    },
    MODERN,
)  # fmt: skip
GEMMA = cases(
    "gemma",
    {
        "one key head, wide heads": {"num_key_value_heads": 1, "head_dim": 10, "hidden_size": 12},
        "untied, biases, another gate": {
            "head_dim": 4, "tie_word_embeddings": False, "attention_bias": True, "hidden_act": "silu",
            "rms_norm_eps": 0.01,
        },
        "the old name of its activation": {"head_dim": 4, "hidden_act": "gelu"},
    },
    HEADS,
)  # fmt: skip
GPT_NEOX = cases(
    "gpt_neox",
    {
        "a quarter rotated": {"hidden_size": 32},
        "all rotated, another base, no biases of attentions": {
            "num_attention_heads": 3, "hidden_size": 18, "rotary_pct": 1.0, "rotary_emb_base": 300,
            "attention_bias": False,
        },
        "one after the other, tied, tanh": {
            "use_parallel_residual": False, "tie_word_embeddings": True, "hidden_act": "gelu_fast",
            "layer_norm_eps": 0.01, "rotary_pct": 0.5,
        },
        "scaled angles": {
            "hidden_size": 24, "num_attention_heads": 2,
            "rope_parameters": {**YARN, "partial_rotary_factor": 0.5},
        },
    },
    {**MODERN, "num_attention_heads": 4, "num_hidden_layers": 2},
)  # fmt: skip
PHI = cases(
    "phi",
    {
        "half rotated, grouped": {},
        "one key head, norms, another part": {
            "num_key_value_heads": 1, "hidden_size": 40, "partial_rotary_factor": 0.4, "qk_layernorm": True,
        },
        "tied, relu, scaled": {
            "num_key_value_heads": 4, "tie_word_embeddings": True, "hidden_act": "relu",
            "layer_norm_eps": 1e-3,
            "rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 200.0},
        },
    },
    HEADS,
)  # fmt: skip
ODD = {**HEADS, "query_pre_attn_scalar": 11, "head_dim": 6, "sliding_window": 3, "num_hidden_layers": 3}
GEMMA2 = cases(
    "gemma2",
    {
        "one key head, low caps": {
            "num_key_value_heads": 1, "attn_logit_softcapping": 0.7, "final_logit_softcapping": 2.5,
        },
        "untied, biases, no cap of scores, other types of layers": {
            "tie_word_embeddings": False, "attention_bias": True, "attn_logit_softcapping": None,
            "layer_types": ["full_attention", "full_attention", "sliding_attention"],
            "hidden_activation": "silu",
        },
        "no window, no cap of logits, scaled angles": {
            "layer_types": ["full_attention"] * 3, "final_logit_softcapping": None, "head_dim": 16,
            "rope_parameters": LLAMA3,
        },
        "all windows": {"layer_types": ["sliding_attention"] * 3, "sliding_window": 2},
    },
    ODD,
)  # fmt: skip
GEMMA3 = cases(
    "gemma3_text",
    {
        "one key head, every other layer": {
            "num_key_value_heads": 1,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 900.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 20.0},
            },
        },
        "all windows, untied, biases, a cap": {
            "tie_word_embeddings": False, "attention_bias": True, "final_logit_softcapping": 3.0,
            "rms_norm_eps": 0.01,
        },
        "no window": {"layer_types": ["full_attention"] * 3, "hidden_activation": "gelu"},
        "full attention first": {"layer_types": ["full_attention", "sliding_attention", "sliding_attention"]},
    },
    ODD,
)  # fmt: skip
OLMO2 = cases(
    "olmo2",
    {
        "grouped": {},
        "one key head, biases, scaled angles": {
            "num_key_value_heads": 1, "attention_bias": True, "rope_parameters": LLAMA3,
        },
        "tied, wide heads, another gate": {
            "num_key_value_heads": 4, "head_dim": 10, "tie_word_embeddings": True, "hidden_act": "gelu",
            "rms_norm_eps": 0.01,
        },
    },
    HEADS,
)  # fmt: skip
CASES = [
    *(*GPT2, *LLAMA, *SCALED, *QWEN3, *MISTRAL, *QWEN2, *GEMMA, *GPT_NEOX, *PHI, *GEMMA2, *GEMMA3, *OLMO2),
]
