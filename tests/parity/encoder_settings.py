"""The rows of the documented table of encoders."""

import json

from tests.parity.encoder_cases import CASES, THREE
from tests.parity.settings_table import QUANTISED, Setting, SettingsTable, of_class

OF_BERT = ("bert", "roberta", "xlm-roberta", "distilbert", "electra")
FAMILIES = (*OF_BERT, "modernbert")
FULL, SLIDING = "full_attention", "sliding_attention"
NAMES = {  # what families call a setting that others have, too
    "distilbert": {"hidden_act": "activation"},
    "modernbert": {"hidden_act": "hidden_activation", "layer_norm_eps": "norm_eps"},
}
DEFAULT = {"rope_type": "default", "rope_theta": 300.0}
YARN = {**DEFAULT, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 20}
SCALED = {"rope_type": "linear", "factor": 2.0, "rope_theta": 300.0}
LONGROPE = {"rope_type": "longrope", "short_factor": [1.0] * 2, "long_factor": [2.0] * 2}
PACKAGE = "sentence_transformers.models."


def sentence_encoder(label: str, pooling: str, named: str = "", *, last: str = "") -> Setting:
    """A row for a folder of sentence-transformers with this mode of pooling, and a module after it."""
    modules = [
        {"type": PACKAGE + name, "path": "1_Pooling" if name == "Pooling" else ""}
        for name in filter(None, ("Transformer", "Pooling", last))
    ]
    return Setting(
        label=label,
        changes={},
        files={
            "modules.json": json.dumps(modules),
            "1_Pooling/config.json": json.dumps({f"pooling_mode_{pooling}": True}),
        },
        families=FAMILIES,
        named=named,
    )


def positions(full: dict, sliding: dict) -> dict:
    """Rotary positions for each type of layer."""
    return {"rope_parameters": {FULL: full, SLIDING: sliding}}


SETTINGS = (
    of_class("states of tokens, or of the pooler (`...Model`)", "Model", families=FAMILIES),
    of_class("masked tokens (`...ForMaskedLM`)", "ForMaskedLM", families=FAMILIES),
    of_class("its own pretraining (`...ForPreTraining`)", "ForPreTraining", families=FAMILIES),
    of_class("classes", "ForSequenceClassification", families=FAMILIES, **THREE),
    of_class("one class, a number", "ForSequenceClassification", families=FAMILIES, num_labels=1),
    of_class(
        "`problem_type` multi_label_classification",
        "ForSequenceClassification",
        families=FAMILIES,
        problem_type="multi_label_classification",
    ),
    of_class("token classes", "ForTokenClassification", families=FAMILIES, **THREE),
    of_class("question answering", "ForQuestionAnswering", families=FAMILIES),
    of_class("multiple choice", "ForMultipleChoice", families=FAMILIES),
    of_class("next sentence", "ForNextSentencePrediction", families=FAMILIES),
    of_class("causal language model", "ForCausalLM", "LMHeadModel", families=FAMILIES, is_decoder=True),
    sentence_encoder("sentence-transformers: mean of the states", "mean_tokens", last="Normalize"),
    sentence_encoder("sentence-transformers: first state", "cls_token"),
    sentence_encoder("sentence-transformers: greatest of the states", "max_tokens"),
    sentence_encoder("sentence-transformers: other poolings", "lasttoken", "lasttoken"),
    sentence_encoder("sentence-transformers: other modules", "mean_tokens", "Dense", last="Dense"),
    Setting(label="`is_decoder` true", changes={"is_decoder": True}, families=OF_BERT),
    Setting(label="`add_cross_attention` true", changes={"add_cross_attention": True}),
    Setting(label="`tie_word_embeddings` false", changes={"tie_word_embeddings": False}),
    Setting(
        label="`position_embedding_type` relative_key",
        changes={"position_embedding_type": "relative_key"},
        families=FAMILIES,
    ),
    Setting(label="`sinusoidal_pos_embds` true", changes={"sinusoidal_pos_embds": True}, idle=True),
    Setting(label="`type_vocab_size` 1", changes={"type_vocab_size": 1}),
    Setting(label="`type_vocab_size` 3", changes={"type_vocab_size": 3}),
    Setting(label="`embedding_size` not `hidden_size`", changes={"embedding_size": 7}),
    Setting(label="another `pad_token_id`", changes={"pad_token_id": 3}, families=FAMILIES, idle=True),
    *(
        Setting(label=f"activation `{name}`", changes={"hidden_act": name}, names=NAMES)
        for name in ("gelu", "gelu_new", "relu", "silu", "quick_gelu")
    ),
    Setting(label="another eps of norms", changes={"layer_norm_eps": 0.01}, names=NAMES),
    QUANTISED,
)  # fmt: skip
OF_MODERNBERT = (
    *(
        Setting(label=f"`{name}` true", changes={name: True})
        for name in ("attention_bias", "mlp_bias", "norm_bias")
    ),
    Setting(label="`decoder_bias` false", changes={"decoder_bias": False}),
    Setting(
        label="`classifier_bias` true",
        changes={"classifier_bias": True, "architectures": ["ModernBertForSequenceClassification"]},
        families=("modernbert",),
    ),
    *(
        Setting(
            label=f"`classifier_pooling` {name}",
            changes={"classifier_pooling": name, "architectures": ["ModernBertForSequenceClassification"]},
            families=("modernbert",),
        )
        for name in ("cls", "mean")
    ),
    Setting(
        label="another `classifier_activation`",
        changes={"classifier_activation": "relu", "architectures": ["ModernBertForMaskedLM"]},
        families=("modernbert",),
    ),
    Setting(label="another `local_attention`", changes={"local_attention": 3}),
    Setting(
        label="another `global_attn_every_n_layers`",
        changes={"global_attn_every_n_layers": 2},
        families=("modernbert",),
    ),
    Setting(label="windows in all layers (`layer_types`)", changes={"layer_types": [SLIDING] * 2}),
    Setting(label="windows in no layer (`layer_types`)", changes={"layer_types": [FULL] * 2}),
    Setting(
        label="other bases of rotary positions",
        changes=positions(DEFAULT, {**DEFAULT, "rope_theta": 20.0}),
    ),
    Setting(label="rotary positions scaled by `yarn`", changes=positions(YARN, DEFAULT)),
    Setting(label="rotary positions scaled by `linear`", changes=positions(SCALED, DEFAULT)),
    Setting(
        label="rotary positions scaled by `longrope`",
        changes=positions(LONGROPE, DEFAULT),
        named="longrope",
    ),
    Setting(label="scaled angles in layers with a window", changes=positions(DEFAULT, SCALED)),
    Setting(
        label="config.json of transformers 4 (`global_rope_theta`)",
        changes={
            "rope_parameters": None, "layer_types": None, "global_attn_every_n_layers": 2,
            "global_rope_theta": 900.0, "local_rope_theta": 20.0, "position_embedding_type": "absolute",
        },
        families=("modernbert",),
        older=True,
    ),
)  # fmt: skip
TABLES = (
    SettingsTable(title="Encoders", families=FAMILIES, settings=SETTINGS, cases=tuple(CASES)),
    SettingsTable(title="ModernBERT", families=("modernbert",), settings=OF_MODERNBERT, cases=tuple(CASES)),
)
