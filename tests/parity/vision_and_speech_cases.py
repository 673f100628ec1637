"""Random models of images and of speech that are compared with transformers."""

from tests.parity.cases import cases

LABELS = {"id2label": {0: "cat", 1: "dog", 2: "fox"}, "label2id": {"cat": 0, "dog": 1, "fox": 2}}
SMALL = {
    "hidden_size": 12, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 17,
    "image_size": 12, "patch_size": 4, **LABELS,
}  # fmt: skip
VIT = cases(
    "vit",
    {
        "": {},
        "one layer, grey": {"num_hidden_layers": 1, "num_channels": 1, "patch_size": 3},
        "one patch a row": {"patch_size": 12, "hidden_act": "relu", "layer_norm_eps": 1e-3},
    },
    SMALL,
)
TEACHER = "DeiTForImageClassificationWithTeacher"
DEIT = cases(
    "deit",
    {
        "": {"model": TEACHER},
        "one layer, grey": {
            "model": TEACHER, "num_hidden_layers": 1, "num_channels": 1, "patch_size": 3,
            "hidden_act": "gelu_new",
        },
        "one head": {"layer_norm_eps": 1e-3},
    },
    SMALL,
)  # fmt: skip
VISION = [*VIT, *DEIT]
SPEECH = cases(  # besides the sizes of tests/whisper_folder.py
    "whisper",
    {
        "as it is": {},
        "one head each": {"encoder_attention_heads": 1, "decoder_attention_heads": 1},
        "many heads": {"encoder_attention_heads": 8, "decoder_attention_heads": 16},
        "one layer and five": {"encoder_layers": 1, "decoder_layers": 5},
        "narrow and wide": {"encoder_ffn_dim": 1, "decoder_ffn_dim": 133},
        "few positions": {"max_target_positions": 9, "num_mel_bins": 3},
        "scaled": {"scale_embedding": True, "activation_function": "gelu_new"},
        "wide": {"d_model": 96, "num_mel_bins": 80, "activation_function": "relu"},
    },
    {},
)
