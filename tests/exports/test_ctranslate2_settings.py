"""Each setting of a model: CTranslate2 computes what regard does, or the setting is refused by its name."""

import ast
import dataclasses

import pytest
import torch
from torch import nn

import regard
from regard.errors import UserError
from regard.exports.certified_export import compared
from regard.exports.ctranslate2_folder import CTRANSLATE2, save
from regard.exports.ctranslate2_process import answer
from regard.exports.refusal import NotExpressible
from regard.layers.attention import SelfAttention
from regard.models.registered import ATTENTIONS, PARTS, POSITIONS, PositionalEncoding
from tests.exports.engine_models import BASES, TEXTS, random_settings, small_model
from tests.exports.settings_table import KINDS, TABLE, settings_of


def engine_computes_the_same(loaded, folder):
    """True if the greedy outputs, beams and log-probabilities of a saved model are regard's."""
    comparison, _ = compared(CTRANSLATE2, loaded, folder, TEXTS, most_new=7, compute=answer)
    return (
        comparison.greedy.accepted == comparison.beam.accepted == 1
        and comparison.log_probs.largest_difference <= 1e-4
        and max(each.largest_score_difference for each in (comparison.greedy, comparison.beam)) <= 1e-4
    )


def result(kind, base, name, text, folder):
    """What the table has to say of a setting."""
    settings = settings_of(kind, name, text)
    if settings is None:
        return "absent"
    loaded = small_model(kind, base, **settings)
    if (refused := refusal(loaded, folder)) is not None:
        named = settings[refused.setting] == refused.value and refused.hint
        return "refused" if named else "refused without its name"
    return "equal" if engine_computes_the_same(loaded, folder) else "different"


def refusal(loaded, folder):
    """The error that refuses to save a model; None if it is saved."""
    try:
        save(loaded, folder)
    except NotExpressible as error:
        return error
    return None


# Every second row with one of the bases for every change, all with both nightly.
@pytest.mark.parametrize(
    ("name", "text", "encoder_decoder", "decoder_only", "base"),
    [
        pytest.param(*row[:4], base, marks=pytest.mark.nightly if (number + 2 * turn) % 4 else ())
        for number, row in enumerate(TABLE)
        for turn, base in enumerate(BASES)
    ],
)
def test_a_row_of_the_documented_table_is_what_the_engine_does(
    name, text, encoder_decoder, decoder_only, base, tmp_path
):
    found = []
    for kind in KINDS:
        (folder := tmp_path / kind).mkdir()
        found.append(result(kind, base, name, text, folder))
    assert found == [encoder_decoder, decoder_only]


def test_the_table_has_all_settings_and_all_of_their_names():
    of_training = {"dropout", "attention_dropout", "activation_dropout", "trained_length", "pad_id"}
    sizes = {"src_vocab_size", "tgt_vocab_size", "vocab_size", "options"}  # options: of refused parts only
    fields = {field.name: field for kind in KINDS.values() for field in dataclasses.fields(kind)}
    assert fields.keys() - of_training - sizes == {name for name, *_ in TABLE}
    for name in ("norm", "norm_position", "activation", "position_layout", "alibi", "positions"):
        known = {*PARTS[name].own} if name in PARTS else choices(fields[name].type)
        assert known == {ast.literal_eval(text) for row, text, *_ in TABLE if row == name}, name


def choices(annotation):
    return {*annotation.__args__} - {type(None)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 16))]
)
def test_settings_together_are_computed_as_by_regard(kind, seed, tmp_path):
    loaded = small_model(kind, **random_settings(kind, seed))
    save(loaded, tmp_path)
    assert engine_computes_the_same(loaded, tmp_path)


FAMILIES = {  # as their converters write them
    "marian": {"position_layout": "split", "activation": "silu", "output_bias": True},
    "bart": {
        "positions": "learned", "max_positions": 40, "position_offset": 2, "embedding_norm": True,
        "activation": "gelu", "output_bias": True, "scaled_embedding": False,
    },
    "t5": {
        "positions": "t5", "norm": "rms", "norm_position": "pre", "bias": False, "attention_scale": 1.0,
        "head_dim": 8, "scaled_embedding": False, "scaled_output": True,
    },
    "gpt2": {"positions": "learned", "norm_position": "pre", "activation": "gelu_tanh"},
    "llama": {"norm_eps": 1e-5, "tied": False, "rotary_base": 5e5},
    "qwen3": {"qk_norm": True, "head_dim": 8},
    "gpt-neox": {
        "positions": "rotary", "rotary_dim": 2, "norm_position": "pre", "activation": "gelu", "tied": False,
        "parallel_residual": "two_norms",
    },
    "phi": {
        "positions": "rotary", "rotary_dim": 4, "norm_position": "pre", "activation": "gelu_tanh",
        "tied": False, "parallel_residual": "one_norm", "output_bias": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_models_of_known_families_are_computed_as_by_regard(family, tmp_path):
    kind = "encoder_decoder" if family in ("marian", "bart", "t5") else "decoder_only"
    base = "llama" if family in ("llama", "qwen3") else "vaswani"
    loaded = small_model(kind, base, **FAMILIES[family])
    save(loaded, tmp_path)
    assert engine_computes_the_same(loaded, tmp_path)


@pytest.mark.parametrize("tied", ["target", "none"])
def test_source_and_target_may_have_vocabularies_of_their_own(tied, tmp_path):
    loaded = small_model("encoder_decoder", joint=False, tied=tied)
    save(loaded, tmp_path)
    assert engine_computes_the_same(loaded, tmp_path)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("setting", ["positions", "attention"])
def test_registered_parts_are_refused(kind, setting, tmp_path, monkeypatch):
    parity = PositionalEncoding("nowhere", lambda config, bidirectional: nn.Identity())
    monkeypatch.setitem(POSITIONS.added, "own", parity)
    monkeypatch.setitem(ATTENTIONS.added, "own", SelfAttention)
    with pytest.raises(NotExpressible) as error:
        save(small_model(kind, **{setting: "own"}), tmp_path)
    assert (error.value.setting, error.value.value) == (setting, "own")
    assert not [*tmp_path.iterdir()]


def test_other_kinds_of_models_are_refused(encoder_folder, tmp_path):
    folder = encoder_folder("none")
    with pytest.raises(UserError, match="encoder_only"):
        save(regard.load(folder, device="cpu"), tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_with_other_parts_is_refused(kind, tmp_path):
    loaded = small_model(kind)
    loaded.model.output.extra = nn.Parameter(torch.zeros(3))
    with pytest.raises(UserError, match=r"output\.extra"):
        save(loaded, tmp_path)
