"""A config that cannot be built is refused where it is written, in one line and a hint."""

import dataclasses
import json

import pytest

from regard.errors import ConfigError
from regard.layers.rotary_scaling import DynamicScaling, LinearScaling, Llama3Scaling, YarnScaling
from regard.models.encoder_decoder import EncoderDecoderConfig
from regard.models.encoder_only import EncoderOnlyConfig
from regard.models.registered import POSITIONS


def refused(**table: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        EncoderDecoderConfig.from_table(table, src_vocab_size=100, tgt_vocab_size=100)
    assert caught.value.hint
    assert "\n" not in caught.value.message + caught.value.hint
    return caught.value


def test_the_defaults_are_the_base_model_of_the_paper():
    config = EncoderDecoderConfig.from_table({}, src_vocab_size=100, tgt_vocab_size=100)
    assert (
        config
        == EncoderDecoderConfig.from_table({"preset": "base"}, src_vocab_size=100, tgt_vocab_size=100)
        == EncoderDecoderConfig(src_vocab_size=100, tgt_vocab_size=100)
    )
    assert (config.d_model, config.num_heads, config.d_ff, config.dropout) == (512, 8, 2048, 0.1)  # not 2024
    assert (config.num_encoder_layers, config.num_decoder_layers) == (6, 6)
    assert (config.norm, config.norm_position, config.activation) == ("layer", "post", "relu")
    assert (config.positions, config.tied) == ("sinusoidal", "all")


@pytest.mark.parametrize("preset", EncoderDecoderConfig.presets)
def test_a_preset_is_where_changes_start_from(preset):
    config = EncoderDecoderConfig.from_table(
        {"dropout": 0.25, "preset": preset}, src_vocab_size=100, tgt_vocab_size=100
    )
    assert dataclasses.replace(
        config, dropout=EncoderDecoderConfig.presets[preset].get("dropout", 0.1)
    ) == EncoderDecoderConfig.from_table({"preset": preset}, src_vocab_size=100, tgt_vocab_size=100)


def test_a_config_survives_its_dict():
    config = EncoderDecoderConfig.from_table(
        {"preset": "tiny", "num_kv_heads": 2, "positions": "rotary"},
        src_vocab_size=100,
        tgt_vocab_size=100,
    )
    assert (
        EncoderDecoderConfig(**config.to_dict()) == config == EncoderDecoderConfig.from_dict(config.to_dict())
    )


@pytest.mark.parametrize(
    "scaling",
    [
        LinearScaling(factor=2.0),
        DynamicScaling(factor=2.0, original_length=9),
        Llama3Scaling(factor=8.0, original_length=9, high_frequency=3.0),
        YarnScaling(factor=4.0, original_length=9, truncate=False, attention_factor=0.5),
    ],
    ids=lambda scaling: scaling.kind,
)
def test_a_scaling_of_rotary_positions_is_a_table_in_its_dict(scaling):
    config = EncoderDecoderConfig(
        src_vocab_size=9, tgt_vocab_size=9, positions="rotary", rotary_scaling=scaling
    )
    table = json.loads(json.dumps(config.to_dict()))
    assert table["rotary_scaling"] == {**dataclasses.asdict(scaling), "kind": scaling.kind}
    assert EncoderDecoderConfig.from_dict(table) == config
    assert config.position_limit == (9 if scaling.kind == "dynamic" else None)


def test_a_dict_that_lacks_a_setting_is_refused():
    with pytest.raises(ConfigError, match="'tgt_vocab_size' is missing"):
        EncoderDecoderConfig.from_dict({"src_vocab_size": 100})


@pytest.mark.parametrize(
    ("table", "name", "hint"),
    [
        ({"preset": "tny"}, "tny", "'tiny'"),
        ({"preset": 3}, "3", "known"),
        ({"d_modle": 64}, "d_modle", "'d_model'"),
        ({"src_vocab_size": 64}, "src_vocab_size = 64", "tokeniser"),
        ({"norm": "layr"}, "norm = 'layr'", "'layer'"),
        ({"positions": "rotory"}, "positions = 'rotory'", "'rotary'"),
        ({"norm_position": True}, "norm_position = True", ""),
        ({"positions": ["rotary"]}, "positions = ['rotary']", ""),
        ({"d_model": "512"}, "d_model = '512'", "int"),
        ({"d_model": 512.0}, "d_model = 512.0", "int"),
        ({"d_model": 1.2e9}, "d_model = 1200000000.0", "int"),
        ({"d_model": 10**9}, "d_model = 1000000000", "at most 1,000,000"),
        ({"dropout": True}, "dropout = True", "float"),
        ({"num_heads": 0}, "num_heads = 0", "at least 1"),
        ({"num_encoder_layers": -1}, "num_encoder_layers = -1", "at least 1"),
        ({"dropout": 1.0}, "dropout = 1.0", "< 1"),
        ({"attention_dropout": -0.1}, "attention_dropout = -0.1", "0 <="),
        ({"dropout": float("nan")}, "dropout = nan", "< 1"),
        ({"d_model": 100, "num_heads": 8}, "d_model (100)", "96"),
        ({"num_kv_heads": 3}, "num_kv_heads (3)", ""),
        ({"d_model": 24, "positions": "rotary"}, "is 3", "even"),
        ({"pad_id": 100}, "pad_id = 100", "vocabular"),
        ({"attention_bias": "input"}, "attention_bias = 'input'", "'inputs'"),
        ({"rotary_dim": 4}, "rotary_dim is a setting of rotary positions", "positions = 'rotary'"),
        ({"positions": "rotary", "rotary_dim": 7}, "rotary_dim = 7 of 64 features", "from 2 to 64"),
        ({"positions": "rotary", "rotary_dim": 66}, "rotary_dim = 66 of 64 features", "even"),
        ({"positions": "rotary", "rotary_dim": 0}, "rotary_dim = 0 of 64 features", "even"),
        (
            {"rotary_scaling": {"kind": "linear", "factor": 2}},
            "rotary_scaling is a setting of rotary positions",
            "leave rotary_scaling out",
        ),
        (
            {"positions": "rotary", "rotary_scaling": {"kind": "liner", "factor": 2}},
            "rotary_scaling.kind = 'liner' is unknown",
            "'linear'",
        ),
        (
            {"positions": "rotary", "rotary_scaling": {"factor": 2.0}},
            "rotary_scaling.kind = None is unknown",
            "llama3",
        ),
        (
            {"positions": "rotary", "rotary_scaling": {"kind": "linear", "factr": 2.0}},
            "rotary_scaling of kind 'linear' has no setting 'factr'",
            "'factor'",
        ),
        (
            {"positions": "rotary", "rotary_scaling": {"kind": "yarn", "factor": 2.0}},
            "rotary_scaling of kind 'yarn' needs 'original_length'",
            "original_length",
        ),
        (
            {"positions": "rotary", "rotary_scaling": {"kind": "linear", "factor": "2"}},
            "rotary_scaling.factor = '2' has the wrong type",
            "float",
        ),
        (
            {"positions": "rotary", "rotary_scaling": {"kind": "linear", "factor": 0.5}},
            "rotary_scaling: factor = 0.5 is below 1",
            "publication",
        ),
        ({"positions": "rotary", "rotary_scaling": "linear"}, "rotary_scaling = 'linear' has the wrong", ""),
    ],
)
def test_what_cannot_work_is_named_with_what_would(table, name, hint):
    error = refused(**table)
    assert name in error.message
    assert hint in error.hint


def test_tying_all_needs_one_vocabulary():
    with pytest.raises(ConfigError, match="100 tokens and the target 90") as caught:
        EncoderDecoderConfig.from_table({}, src_vocab_size=100, tgt_vocab_size=90)
    assert caught.value.hint == "use a joint tokeniser, or tied = 'target'"
    assert (
        EncoderDecoderConfig.from_table(
            {"tied": "target"}, src_vocab_size=100, tgt_vocab_size=90
        ).tgt_vocab_size
        == 90
    )


def test_whole_numbers_may_stand_for_fractions():
    assert (
        EncoderDecoderConfig.from_table({"dropout": 0}, src_vocab_size=100, tgt_vocab_size=100).dropout == 0
    )


def test_one_of_several_words_or_nothing():
    def config(activation: object) -> EncoderOnlyConfig:
        return EncoderOnlyConfig.from_dict(
            {"vocab_size": 9, "head": "classification", "num_labels": 2, "head_activation": activation}
        )

    assert [config(word).head_activation for word in ("gelu", "relu", None)] == ["gelu", "relu", None]
    hints = {
        "mish": "known: gelu, gelu_tanh, quick_gelu, relu, silu, tanh",
        3: "known: gelu, ",
        "gelo": "'gelu'",
    }
    for wrong, hint in hints.items():
        with pytest.raises(ConfigError, match=rf"head_activation = {wrong!r} is unknown") as caught:
            config(wrong)
        assert hint in caught.value.hint


OTHERS = {
    "max_positions": 3, "position_layout": "split", "position_buckets": 64, "position_distance": 400,
    "alibi": "symmetric", "rotary_base": 500.0, "position_offset": 7,
}  # fmt: skip
USED = {
    "learned": ("max_positions", "position_offset"), "sinusoidal": ("position_layout",),
    "t5": ("position_buckets", "position_distance"), "alibi": ("alibi",), "rotary": ("rotary_base",),
    "none": (),
}  # fmt: skip


@pytest.mark.parametrize("positions", list(USED))
@pytest.mark.parametrize("name", list(OTHERS))
def test_a_new_recipe_s_setting_of_other_positions_is_refused(positions, name):
    table = {"positions": positions, name: OTHERS[name]}
    config = EncoderDecoderConfig.from_table(table, src_vocab_size=100, tgt_vocab_size=100)
    assert getattr(config, name) == OTHERS[name], "that of an old run is read"
    if name in USED[positions]:
        EncoderDecoderConfig.refuse_unused(table)
        return
    with pytest.raises(ConfigError, match=f"{name} = {OTHERS[name]!r} has no effect") as caught:
        EncoderDecoderConfig.refuse_unused(table)
    assert "leave" in caught.value.hint
    EncoderDecoderConfig.refuse_unused({**table, name: getattr(EncoderDecoderConfig, name)})
    EncoderDecoderConfig.refuse_unused({**table, "init": "a/model"})


def test_sinusoidal_positions_of_fairseq_have_an_offset():
    table = {"position_layout": "fairseq", "position_offset": 2}
    EncoderDecoderConfig.refuse_unused(table)
    with pytest.raises(ConfigError, match="position_layout"):
        EncoderDecoderConfig.refuse_unused({**table, "positions": "rotary"})


def test_a_preset_s_positions_count():
    assert EncoderOnlyConfig.presets["modern"]["positions"] == "rotary"
    EncoderOnlyConfig.refuse_unused({"preset": "modern", "rotary_base": 500.0})
    with pytest.raises(ConfigError, match="max_positions"):
        EncoderOnlyConfig.refuse_unused({"preset": "modern", "max_positions": 3})


def test_registered_positions_may_read_any_setting(monkeypatch):
    monkeypatch.setitem(POSITIONS.added, "own", POSITIONS["sinusoidal"])
    EncoderDecoderConfig.refuse_unused({"positions": "own", **OTHERS})
