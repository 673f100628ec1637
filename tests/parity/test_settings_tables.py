"""Each cell of the documented tables is what transformers and regard do with that setting of that family."""

import json
import re

import pytest

from regard.errors import FolderError
from regard.weights.families.ignored_settings import HARMLESS
from regard.weights.pretrained import FAMILIES, load_pretrained
from tests.parity.cases import smallest
from tests.parity.pairs import are_equal, config_of, flat_config_of
from tests.parity.settings_page import PAGE, columns_of, documented
from tests.parity.settings_table import ABSENT, cell, settings_of
from tests.parity.settings_tables import TABLES

transformers = pytest.importorskip("transformers")
TEXT = PAGE.read_text("utf-8")
ROWS = [(table, setting) for table in TABLES for setting in table.settings]


def families_of(table, setting, number):
    """For every change one of the families that may have the setting, in turn; nightly all of the table."""
    name = f"{table.title}: {setting.label}"
    some = [family for family in table.families if family in (setting.families or ())] or table.families
    yield pytest.param(table, setting, [some[number % len(some)]], id=name)
    if len(table.families) > 1:
        yield pytest.param(table, setting, table.families, id=f"{name}, all", marks=pytest.mark.nightly)


@pytest.mark.parametrize(
    ("table", "setting", "families"),
    [each for number, row in enumerate(ROWS) for each in families_of(*row, number)],
)
def test_a_row_is_what_is_found(table, setting, families, make):
    _, rows = documented(TEXT, table.title)
    row = rows.get(setting.label, [ABSENT] * len(table.families))
    expected = dict(zip(table.families, row, strict=True))
    found = {family: cell(setting, family, table.cases, make) for family in families}
    assert found == {family: expected[family] for family in families}, (
        "python -m tests.parity.write_settings_tables writes what is found"
    )


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_a_table_has_its_families_and_no_row_that_is_not_tested(table):
    columns, rows = documented(TEXT, table.title)
    assert columns == columns_of(table)
    labels = [setting.label for setting in table.settings]
    assert len(set(labels)) == len(labels)
    assert list(rows) == [label for label in labels if label in rows]


def test_each_family_is_in_a_table():
    assert {family for table in TABLES for family in table.families} == {*FAMILIES}


DROPPED = re.compile(r"drop(out)?(_prob|_rate)?$|pdrop$|layerdrop$|_probs_dropout_prob$")  # of training
SIZES = re.compile(
    r"vocab_size|hidden_size|d_model|dim|hidden_dim|intermediate_size|n_(embd|head|inner|layer|positions)"
    r"|num_(attention_heads|hidden_layers|layers|heads)|n_(heads|layers)|d_(ff|kv)|num_decoder_layers"
    r"|(encoder|decoder)_(layers|attention_heads|ffn_dim)|max_(source_|target_)?position(s|_embeddings)"
    r"|image_size|sliding_window|layer_types|rope_parameters"
)
IGNORED = {  # settings of transformers' configs that change no output, each with another value
    "llama": {"pretraining_tp": 2},
    "qwen2": {"max_window_layers": 1},
    "qwen3": {"max_window_layers": 1},
    "gpt2": {
        "summary_type": "mean", "summary_use_proj": False, "summary_activation": "tanh",
        "summary_proj_to_labels": False,
    },
    "gpt_neox": {"is_decoder": True},
    "electra": {"summary_type": "mean", "summary_use_proj": False, "summary_activation": "tanh"},
    "modernbert": {
        "deterministic_flash_attn": True, "initializer_cutoff_factor": 3.0, "sparse_prediction": True,
        "sparse_pred_ignore_index": -1, "cls_token_id": 5,
    },
    "marian": {"is_decoder": True},
    "bart": {"is_decoder": True},
    "mbart": {"is_decoder": True},
    "pegasus": {"is_decoder": True},
    "t5": {"is_decoder": True},
    "vit": {"encoder_stride": 4, "pooler_output_size": 8, "pooler_act": "relu"},
    "deit": {"encoder_stride": 4, "pooler_output_size": 8, "pooler_act": "relu"},
    "whisper": {
        "apply_spec_augment": True, "classifier_proj_size": 9, "use_weighted_layer_sum": True,
        "median_filter_width": 9, "mask_time_length": 3, "mask_time_prob": 0.5, "mask_time_min_masks": 1,
        "mask_feature_length": 3, "mask_feature_prob": 0.5, "mask_feature_min_masks": 1,
    },
    "clip": {
        "logit_scale_init_value": -1.5,  # of a new model: files have the scale itself
        "text_config.projection_dim": 7, "vision_config.projection_dim": 7,
    },
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_settings_that_regard_ignores_change_no_output_of_transformers(family, make):
    dropped = {name: 0.4 for name in settings_of(family) if DROPPED.search(name)}
    ignored = {**dropped, **IGNORED.get(family, {})}
    pair = make(smallest(family, ignored, name="ignored"))
    assert are_equal(pair)
    there = flat_config_of(pair.folder)
    base = flat_config_of(make(smallest(family, {})).folder)
    assert {name for name in dropped if there.get(name) == base.get(name)} <= {"classifier_dropout"}


@pytest.mark.parametrize("family", FAMILIES)
def test_each_setting_of_transformers_is_a_row_or_changes_no_output(family):
    rows = {
        name
        for table, setting in ROWS
        if family in table.families and setting.is_of(family)
        for name in setting.changed(family)
    }
    known = {
        name
        for name in settings_of(family)
        if not (DROPPED.search(name) or SIZES.fullmatch(own := name.rpartition(".")[2]) or own in HARMLESS)
    }
    assert known - rows == {*IGNORED.get(family, {})} & known - rows


def test_other_types_of_models_are_refused_by_name(make, tmp_path):
    named = re.findall(r"`(\w+)`", TEXT.split("Other types of models are refused by name")[1].split(".")[0])
    assert len(named) > 3
    base = config_of(make(smallest("llama", {})).folder)
    for name in named:
        assert name in transformers.CONFIG_MAPPING
        (tmp_path / "config.json").write_text(json.dumps({**base, "model_type": name}), "utf-8")
        (tmp_path / "model.safetensors").write_bytes(b"")
        with pytest.raises(FolderError, match=name):
            load_pretrained(tmp_path)
