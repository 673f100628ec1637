"""The rows of the documented tables of decoders."""

from collections.abc import Mapping
from typing import Any

from tests.parity.decoder_cases import CASES
from tests.parity.settings_table import QUANTISED, Setting, SettingsTable, of_class

LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3", "olmo2")
GEMMAS = ("gemma", "gemma2", "gemma3_text")
OTHERS = ("gpt2", "gpt_neox", "phi")
FAMILIES = (*LLAMA_LIKE, *GEMMAS, *OTHERS)
FULL, SLIDING = "full_attention", "sliding_attention"
THETA = {"rope_theta": 300.0}
SCALES = {
    "linear": {"factor": 2.5},
    "dynamic": {"factor": 3.0},
    "llama3": {
        "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 20,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 20},
    "longrope": {
        "short_factor": [1.0, 1.5], "long_factor": [2.0, 3.0], "original_max_position_embeddings": 20,
    },
}  # fmt: skip
NAMES = {  # what families call a setting that others have, too
    "gpt2": {"hidden_act": "activation_function", "rms_norm_eps": "layer_norm_epsilon"},
    "gpt_neox": {"rms_norm_eps": "layer_norm_eps"},
    "phi": {"rms_norm_eps": "layer_norm_eps"},
    "gemma2": {"hidden_act": "hidden_activation"},
    "gemma3_text": {"hidden_act": "hidden_activation"},
}


def by_type(full: Mapping[str, Any], sliding: Mapping[str, Any]) -> dict[str, Any]:
    """Rotary positions for each type of layer."""
    return {"rope_parameters": {FULL: full, SLIDING: sliding}, "layer_types": [SLIDING, FULL]}


def rotary(kind: str, settings: Mapping[str, Any]) -> Setting:
    """Scaled rotary positions; of Gemma 3 those of full attention."""
    own = {**THETA, "rope_type": kind, **settings}
    parts = {"gpt_neox": {**own, "partial_rotary_factor": 0.5}}
    return Setting(
        label=f"rotary positions scaled by `{kind}`",
        changes={"rope_parameters": own},
        of={
            "gemma3_text": by_type(own, {"rope_type": "default", "rope_theta": 20.0}),
            **{family: {"rope_parameters": part} for family, part in parts.items()},
        },
        holds=lambda settings: kind in rotary_kinds(settings),
        named=kind,
    )


def rotary_kinds(settings: Mapping[str, Any]) -> list[str]:
    """The types of rotary positions that a config.json has."""
    table = settings.get("rope_parameters") or {}
    return [
        each["rope_type"]
        for each in (table, *table.values())
        if isinstance(each, dict) and "rope_type" in each
    ]


ALL_WINDOWS = {"sliding_window": 3, "layer_types": [SLIDING, SLIDING]}
QWEN_WINDOWS = {"use_sliding_window": True, "sliding_window": 3, "max_window_layers": 0}
SOME_WINDOWS = {"sliding_window": 3, "layer_types": [SLIDING, FULL]}
OLDER = {"rope_parameters": None, "layer_types": None, "rope_scaling": {"type": "linear", "factor": 2.0}}
OLDER_WINDOWS = {"rope_theta": 300, "use_sliding_window": True, "sliding_window": 3, "max_window_layers": 1}
SETTINGS = (
    Setting(label="`tie_word_embeddings` true", changes={"tie_word_embeddings": True}),
    Setting(label="`tie_word_embeddings` false", changes={"tie_word_embeddings": False}),
    Setting(label="as many key heads as heads", changes={"num_key_value_heads": 4}),
    Setting(label="grouped key heads (`num_key_value_heads`)", changes={"num_key_value_heads": 2}),
    Setting(label="one key head", changes={"num_key_value_heads": 1}),
    Setting(
        label="`head_dim` not `hidden_size` / heads",
        changes={"head_dim": 6},
        of={"phi": {"head_dim": 10}, "gpt_neox": {"head_dim": 10}},
        holds=lambda settings: (
            "head_dim" in settings
            and settings["head_dim"] * settings["num_attention_heads"] != settings["hidden_size"]
        ),
        families=("llama", "mistral", "qwen2", "qwen3", "olmo2", "gemma", "gemma2", "gemma3_text", "phi"),
    ),
    Setting(label="`attention_bias` true", changes={"attention_bias": True}),
    Setting(label="`attention_bias` false", changes={"attention_bias": False}),
    Setting(label="`mlp_bias` true", changes={"mlp_bias": True}),
    *(
        Setting(label=f"activation `{name}`", changes={"hidden_act": name}, names=NAMES, idle="_" in name)
        for name in ("silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "quick_gelu")
    ),
    Setting(
        label="another eps of norms",
        changes={"rms_norm_eps": 0.01},
        names=NAMES,
    ),
    Setting(
        label="another `rope_theta`",
        changes={"rope_parameters": {"rope_type": "default", **THETA}},
        of={
            "gpt_neox": {"rope_parameters": {"rope_type": "default", **THETA, "partial_rotary_factor": 0.25}},
            "gemma3_text": by_type({"rope_type": "default", **THETA}, {"rope_type": "default", **THETA}),
        },
    ),
    *(rotary(kind, settings) for kind, settings in SCALES.items()),
    Setting(
        label="a part of each head rotated (`partial_rotary_factor`)",
        changes={"rope_parameters": {"rope_type": "default", **THETA, "partial_rotary_factor": 0.5}},
        of={
            "gemma3_text": by_type(
                {"rope_type": "default", "partial_rotary_factor": 0.5, **THETA},
                {"rope_type": "default", **THETA},
            ),
        },
    ),
    Setting(
        label="another base in layers with a window",
        changes=by_type({"rope_type": "default", **THETA}, {"rope_type": "default", "rope_theta": 20.0}),
        families=("gemma3_text",),
    ),
    Setting(
        label="scaled angles in layers with a window",
        changes=by_type({"rope_type": "default", **THETA}, {"rope_type": "linear", "factor": 2.0, **THETA}),
        families=("gemma3_text",),
        named="sliding_attention",
    ),
    Setting(
        label="no sliding window",
        changes={"sliding_window": None},
        of={family: {"layer_types": [FULL, FULL]} for family in ("gemma2", "gemma3_text")},
        families=("mistral", "qwen2", "qwen3", "gemma2", "gemma3_text"),
    ),
    Setting(
        label="a sliding window in all layers",
        changes=ALL_WINDOWS,
        of={"mistral": {"sliding_window": 3}, **dict.fromkeys(("qwen2", "qwen3"), QWEN_WINDOWS)},
        families=("mistral", "qwen2", "qwen3", "gemma2", "gemma3_text"),
    ),
    Setting(
        label="a sliding window in some layers (`layer_types`)",
        changes=SOME_WINDOWS,
        of={family: {**QWEN_WINDOWS, "max_window_layers": 1} for family in ("qwen2", "qwen3")},
        families=("qwen2", "qwen3", "gemma2", "gemma3_text"),
    ),
    Setting(
        label="`layer_types` with `chunked_attention`",
        changes={"layer_types": ["chunked_attention", FULL]},
    ),
    Setting(label="`attn_logit_softcapping`", changes={"attn_logit_softcapping": 0.7}),
    Setting(label="`attn_logit_softcapping` null", changes={"attn_logit_softcapping": None}),
    Setting(label="`final_logit_softcapping`", changes={"final_logit_softcapping": 2.5}),
    Setting(label="`final_logit_softcapping` null", changes={"final_logit_softcapping": None}),
    Setting(
        label="`query_pre_attn_scalar` not `head_dim`",
        changes={"query_pre_attn_scalar": 11},
    ),
    Setting(label="`use_bidirectional_attention` true", changes={"use_bidirectional_attention": True}),
    Setting(label="`qk_layernorm` true", changes={"qk_layernorm": True}),
    Setting(label="`qk_layernorm` false", changes={"qk_layernorm": False}),
    Setting(label="`use_parallel_residual` true", changes={"use_parallel_residual": True}),
    Setting(label="`use_parallel_residual` false", changes={"use_parallel_residual": False}),
    Setting(label="`scale_attn_weights` false", changes={"scale_attn_weights": False}),
    Setting(
        label="`scale_attn_by_inverse_layer_idx` true", changes={"scale_attn_by_inverse_layer_idx": True}
    ),
    Setting(label="`reorder_and_upcast_attn` true", changes={"reorder_and_upcast_attn": True}, idle=True),
    Setting(label="`add_cross_attention` true", changes={"add_cross_attention": True}),
    Setting(
        label="config.json of transformers 4 (`rope_scaling`)",
        changes={**OLDER, "rope_theta": 300.0},
        of={
            "qwen2": {**OLDER, **OLDER_WINDOWS},
            "qwen3": {**OLDER, **OLDER_WINDOWS},
            "gemma3_text": {
                **OLDER,
                "_sliding_window_pattern": None,
                "sliding_window_pattern": 2,
                "rope_theta": 900.0,
                "rope_local_base_freq": 20.0,
                "rope_scaling": {"rope_type": "linear", "factor": 2.0},
            },
            "gpt_neox": {**OLDER, "rotary_emb_base": 300, "rotary_pct": 0.5},
            "phi": {**OLDER, "rope_theta": 300.0, "partial_rotary_factor": 0.25},
        },
        families=tuple(family for family in FAMILIES if family != "gpt2"),
        older=True,
    ),
    QUANTISED,
    of_class("classes (`...ForSequenceClassification`)", "ForSequenceClassification", families=FAMILIES),
    of_class("token classes (`...ForTokenClassification`)", "ForTokenClassification", families=FAMILIES),
    of_class("question answering (`...ForQuestionAnswering`)", "ForQuestionAnswering", families=FAMILIES),
)
TABLES = tuple(
    SettingsTable(title=title, families=families, settings=SETTINGS, cases=tuple(CASES))
    for title, families in (
        ("Llama, Mistral, Qwen and OLMo", LLAMA_LIKE),
        ("Gemma", GEMMAS),
        ("GPT-2, GPT-NeoX and Phi", OTHERS),
    )
)
