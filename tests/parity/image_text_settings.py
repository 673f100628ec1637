"""The rows of the documented table of models of images and texts."""

from tests.clip_folder import START, TEXT, VISION, preprocessor
from tests.parity.settings_table import QUANTISED, Setting, SettingsTable, of_class

FAMILIES = ("clip", "clip_text_model", "clip_vision_model")
TEXTS = {"clip": ("text_config",)}  # where CLIP has a setting of texts
IMAGES = {"clip": ("vision_config",)}
BOTH = {"clip": ("text_config", "vision_config")}
OLDER = {"hidden_act": "gelu", "layer_norm_eps": 1e-3}
BARE = {"clip_text_model": "CLIPTextModel", "clip_vision_model": "CLIPVisionModel"}
SETTINGS = (
    Setting(
        label="no projection (`CLIPTextModel`, `CLIPVisionModel`)",
        changes={},
        of={family: {"architectures": [name]} for family, name in BARE.items()},
    ),
    of_class("classes (`CLIPForImageClassification`)", "ForImageClassification", families=("clip",)),
    Setting(label="another `projection_dim`", changes={"projection_dim": 7}),
    *(
        Setting(label=f"activation `{name}`", changes={"hidden_act": name}, towers=BOTH)
        for name in ("quick_gelu", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "tanh")
    ),
    Setting(label="another eps of norms", changes={"layer_norm_eps": 0.01}, towers=BOTH),
    Setting(label="another `hidden_size`", changes={"hidden_size": 24}, towers=BOTH),
    Setting(label="another `intermediate_size`", changes={"intermediate_size": 33}, towers=BOTH),
    Setting(label="one layer", changes={"num_hidden_layers": 1}, towers=BOTH),
    Setting(label="one head", changes={"num_attention_heads": 1}, towers=BOTH),
    Setting(label="`eos_token_id` 2: the token of the highest id", changes={"eos_token_id": 2}, towers=TEXTS),
    Setting(label="another `eos_token_id`", changes={"eos_token_id": 7}, towers=TEXTS),
    Setting(label="several ids in `eos_token_id`", changes={"eos_token_id": [7, 9]}, towers=TEXTS),
    Setting(label="another `bos_token_id`", changes={"bos_token_id": START - 1}, towers=TEXTS, idle=True),
    Setting(label="another `pad_token_id`", changes={"pad_token_id": 4}, towers=TEXTS, idle=True),
    Setting(label="another `vocab_size`", changes={"vocab_size": 600}, towers=TEXTS),
    Setting(label="another `max_position_embeddings`", changes={"max_position_embeddings": 15}, towers=TEXTS),
    Setting(label="`num_channels` 1", changes={"num_channels": 1}, towers=IMAGES),
    Setting(label="another `patch_size`", changes={"patch_size": 3}, towers=IMAGES),
    Setting(label="`patch_size` of unequal sides", changes={"patch_size": [3, 4]}, towers=IMAGES),
    Setting(
        label="another `image_size`",
        changes={"image_size": 20},
        towers=IMAGES,
        files={"preprocessor_config.json": preprocessor(pixels=20)},
    ),
    Setting(label="`image_size` of unequal sides", changes={"image_size": [12, 16]}, towers=IMAGES),
    *(
        Setting(
            label=f"`{name}_dict` of older folders",
            changes={f"{name}_dict": {**sizes, **OLDER}},
            families=("clip",),
            older=True,
        )
        for name, sizes in (("text_config", TEXT), ("vision_config", VISION))
    ),
    QUANTISED,
)
TABLES = (SettingsTable(title="Images and texts", families=FAMILIES, settings=SETTINGS, cases=()),)
