"""The rows of the documented tables of encoder-decoders."""

import json

from tests.parity.encoder_decoder_cases import CASES
from tests.parity.settings_table import QUANTISED, Setting, SettingsTable, of_class

OF_MARIAN = ("marian", "bart", "mbart", "m2m_100", "pegasus")
FAMILIES = (*OF_MARIAN, "t5")
OLDER = ("normalize_before", "normalize_embedding", "add_final_layer_norm", "static_position_embeddings")
USUAL = {  # the values of these that each family has
    "marian": (False, False, False, True),
    "bart": (False, True, False, False),
    "mbart": (True, True, True, False),
    "m2m_100": (True, False, True, True),
    "pegasus": (True, False, True, True),
}
NETWORKS = ("relu", "gelu", "gelu_new", "silu", "gated-gelu", "gated-silu", "gated-relu", "quick_gelu")


def decoding(name: str, **settings: object) -> Setting:
    """A row for a setting of generation_config.json."""
    return Setting(
        label=f"`{name}`",
        changes={},
        files={"generation_config.json": json.dumps(settings)},
        families=FAMILIES,
        decoded=settings,
    )


SETTINGS = (
    of_class("no head (`...Model`)", "Model", families=FAMILIES, idle=True),
    of_class("classes (`...ForSequenceClassification`)", "ForSequenceClassification", families=FAMILIES),
    of_class("token classes (`...ForTokenClassification`)", "ForTokenClassification", families=FAMILIES),
    of_class("question answering (`...ForQuestionAnswering`)", "ForQuestionAnswering", families=FAMILIES),
    of_class("one side alone", "ForCausalLM", "EncoderModel", families=FAMILIES),
    Setting(label="`tie_word_embeddings` true", changes={"tie_word_embeddings": True}),
    Setting(label="`tie_word_embeddings` false", changes={"tie_word_embeddings": False}),
    Setting(
        label="`share_encoder_decoder_embeddings` false",
        changes={"share_encoder_decoder_embeddings": False, "decoder_vocab_size": 39},
        families=("marian",),
    ),
    Setting(label="a bias of the logits", changes={}, families=("marian", "bart", "mbart", "pegasus")),
    Setting(label="`scale_embedding` true", changes={"scale_embedding": True}),
    Setting(label="`scale_embedding` false", changes={"scale_embedding": False}),
    *(
        Setting(label=f"activation `{name}`", changes={"activation_function": name}, families=OF_MARIAN)
        for name in ("gelu", "gelu_new", "relu", "silu", "swish", "quick_gelu")
    ),
    *(Setting(label=f"`feed_forward_proj` {name}", changes={"feed_forward_proj": name}) for name in NETWORKS),
    Setting(label="`dense_act_fn` not that of `feed_forward_proj`", changes={"dense_act_fn": "gelu"}),
    Setting(label="`is_gated_act` not that of `feed_forward_proj`", changes={"is_gated_act": True}),
    Setting(label="another eps of norms", changes={"layer_norm_epsilon": 0.01}),
    Setting(
        label="other depths of encoder and decoder",
        changes={"encoder_layers": 1, "decoder_layers": 3},
        of={"t5": {"num_layers": 1, "num_decoder_layers": 3}},
    ),
    Setting(
        label="other heads of encoder and decoder",
        changes={"encoder_attention_heads": 2},
        named="attention_heads",
    ),
    Setting(label="other networks of encoder and decoder", changes={"encoder_ffn_dim": 9}, named="ffn_dim"),
    Setting(label="`d_kv` not `d_model` / heads", changes={"d_kv": 6}),
    Setting(
        label="an odd `d_model`",
        changes={"d_model": 15, "encoder_attention_heads": 3, "decoder_attention_heads": 3},
        of={"t5": {"d_model": 15}},
        holds=lambda settings: settings["d_model"] % 2 == 1,
        families=FAMILIES,
    ),
    Setting(label="another `relative_attention_num_buckets`", changes={"relative_attention_num_buckets": 8}),
    Setting(
        label="another `relative_attention_max_distance`",
        changes={"relative_attention_num_buckets": 8, "relative_attention_max_distance": 10},
    ),
    Setting(
        label="another `decoder_start_token_id`",
        changes={"decoder_start_token_id": 40},
        families=FAMILIES,
        idle=True,
    ),
    Setting(
        label="config.json of transformers 4 (no `scale_decoder_outputs`)",
        changes={"tie_word_embeddings": False, "scale_decoder_outputs": None},
        families=("t5",),
        older=True,
    ),
    *(
        Setting(
            label=f"another `{name}`",
            changes={name: None},
            of={family: {name: not values[number]} for family, values in USUAL.items()},
            families=OF_MARIAN,
        )
        for number, name in enumerate(OLDER)
    ),
    Setting(label="`add_bias_logits` true", changes={"add_bias_logits": True}, families=OF_MARIAN),
    decoding("forced_bos_token_id", forced_bos_token_id=7, max_length=9),
    decoding("forced_eos_token_id", forced_eos_token_id=2, max_length=5),
    QUANTISED,
)  # fmt: skip
TABLES = tuple(
    SettingsTable(title=title, families=families, settings=SETTINGS, cases=tuple(CASES))
    for title, families in (("Marian, BART, mBART, M2M-100 and Pegasus", OF_MARIAN), ("T5", ("t5",)))
)
