"""The rows of the documented tables of vision transformers and of speech."""

from tests.parity.settings_table import QUANTISED, Setting, SettingsTable, of_class
from tests.parity.vision_and_speech_cases import LABELS, SPEECH, VISION

IMAGES = ("vit", "deit")
OF_IMAGES = (
    of_class("classes", "ForImageClassification", families=IMAGES, **LABELS),
    of_class("classes of both tokens", "ForImageClassificationWithTeacher", families=IMAGES),
    of_class("no head (`...Model`)", "Model", families=IMAGES),
    of_class("masked patches", "ForMaskedImageModeling", families=IMAGES),
    Setting(label="`num_channels` 1", changes={"num_channels": 1}),
    Setting(label="another `patch_size`", changes={"patch_size": 3}),
    Setting(label="`image_size` of unequal sides", changes={"image_size": [12, 16]}),
    Setting(label="`qkv_bias` false", changes={"qkv_bias": False}),
    *(
        Setting(label=f"activation `{name}`", changes={"hidden_act": name})
        for name in ("gelu", "gelu_new", "relu", "silu", "quick_gelu")
    ),
    Setting(label="another eps of norms", changes={"layer_norm_eps": 0.01}),
    QUANTISED,
)
OF_SPEECH = (
    of_class("transcription", "ForConditionalGeneration", families=("whisper",)),
    of_class("no head (`...Model`)", "Model", families=("whisper",)),
    of_class("classes (`...ForAudioClassification`)", "ForAudioClassification", families=("whisper",)),
    of_class("decoder alone (`...ForCausalLM`)", "ForCausalLM", families=("whisper",)),
    Setting(label="`tie_word_embeddings` false", changes={"tie_word_embeddings": False}),
    Setting(label="`scale_embedding` true", changes={"scale_embedding": True}, idle=True),
    Setting(label="other depths of encoder and decoder", changes={"encoder_layers": 1, "decoder_layers": 5}),
    Setting(
        label="other heads of encoder and decoder",
        changes={"encoder_attention_heads": 8, "decoder_attention_heads": 16},
    ),
    Setting(
        label="other networks of encoder and decoder",
        changes={"encoder_ffn_dim": 1, "decoder_ffn_dim": 133},
    ),
    Setting(label="another `num_mel_bins`", changes={"num_mel_bins": 80}),
    *(
        Setting(label=f"activation `{name}`", changes={"activation_function": name})
        for name in ("gelu", "gelu_new", "relu", "silu", "quick_gelu")
    ),
    QUANTISED,
)
TABLES = (
    SettingsTable(title="Images", families=IMAGES, settings=OF_IMAGES, cases=tuple(VISION)),
    SettingsTable(title="Speech", families=("whisper",), settings=OF_SPEECH, cases=tuple(SPEECH)),
)
