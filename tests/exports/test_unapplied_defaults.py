"""The README.md of an export names each decoding default of a model that its code does not apply."""

import dataclasses

import pytest

from regard.decoding.continuation import ContinuationSettings
from regard.decoding.settings import GenerationSettings
from regard.exports import ctranslate2_folder, huggingface_folder, onnx_folder
from regard.exports.ctranslate2_folder import CTRANSLATE2
from regard.exports.gguf_folder import GGUF
from regard.exports.onnx_folder import ONNX
from regard.exports.unapplied_defaults import (
    UNAPPLIED,
    WITHOUT_EFFECT,
    unapplied_defaults,
    unapplied_line,
    unapplied_warning,
)
from regard.exports.web_folder import WEB
from tests.exports.engine_models import small_model

SETTINGS = {"encoder_decoder": GenerationSettings, "decoder_only": ContinuationSettings}
NEUTRAL = {"length_penalty": "power", "alpha": 1.0, "beam_size": 3, "ban": [], "repetition_penalty": 1.0}


def with_defaults(kind, **generation):
    return dataclasses.replace(small_model(kind), generation=generation)


@pytest.mark.parametrize("applied", [onnx_folder.APPLIED, ctranslate2_folder.APPLIED])
@pytest.mark.parametrize("kind", SETTINGS)
def test_every_default_is_applied_or_without_effect_or_named(kind, applied):
    """A new control is named until somebody sorts it elsewhere."""
    names = {field.name for field in dataclasses.fields(SETTINGS[kind])} - applied - WITHOUT_EFFECT
    loaded = with_defaults(kind, **dict.fromkeys(names, "given"))
    assert unapplied_defaults(loaded, applied).keys() == names


def test_what_changes_nothing_is_not_named():
    loaded = with_defaults("encoder_decoder", **NEUTRAL)
    assert not unapplied_line(loaded, onnx_folder.APPLIED, "")


def test_defaults_that_the_folder_of_a_model_does_not_have_are_named_too():
    found = unapplied_defaults(small_model("encoder_decoder"), onnx_folder.APPLIED)
    assert found == {"length_penalty": "wu", "alpha": 0.6}


def test_the_line_names_values():
    loaded = with_defaults("encoder_decoder", **{**NEUTRAL, "ban": ["Hund"]})
    assert "do not apply these decoding defaults of the model: `ban = ['Hund']`." in unapplied_line(
        loaded, onnx_folder.APPLIED, "The loops do"
    )


TARGETS = (ONNX, WEB, CTRANSLATE2, GGUF, huggingface_folder.OWN)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.key)
def test_a_default_search_and_default_rules_are_warned_of(target):
    kind = "decoder_only" if target is GGUF else "encoder_decoder"
    chosen = {"search": "pruned_beam", "rules": ["no_a"]}

    def warning(generation):
        loaded = with_defaults(kind, **{**NEUTRAL, **generation})
        return unapplied_warning({UNAPPLIED: unapplied_defaults(loaded, target.applied(loaded))})

    found = warning(chosen)
    assert "search = 'pruned_beam'" in found
    assert "rules = ['no_a']" in found
    assert warning({"max_length": 200, "beam_size": 0}) == "", "most models have one"


@pytest.mark.parametrize("size", [None, 1, 7])
def test_the_code_for_ctranslate2_has_the_beam_of_the_model_and_does_not_name_it(size):
    loaded = with_defaults("encoder_decoder", **{} if size is None else {"beam_size": size})
    card = ctranslate2_folder._card(loaded, "float32")
    assert f"beam_size={size or 5}," in card
    assert "`beam_size" not in card
