"""A call leaves no model in memory, not even until Python collects what refers to itself.

A model is a few Python objects with much memory, so that such a collection comes far too late.
"""

import gc

import pytest

import regard
from regard.models.decoder_only import DecoderOnly
from regard.models.encoder_decoder import EncoderDecoder
from regard.models.encoder_only import EncoderOnly
from regard.weights.model_folder import load_model

MODELS = (EncoderDecoder, DecoderOnly, EncoderOnly)


@pytest.fixture(autouse=True)
def _nothing_is_left():
    gc.freeze()  # only what is made from here on is looked at: other tests leave millions of objects
    gc.disable()
    yield
    left = [type(each).__name__ for each in gc.get_objects() if type(each) in MODELS]
    gc.enable()
    assert left == []


def test_a_model_in_memory_would_be_found(untrained):
    """So that these tests can fail."""
    loaded = load_model(untrained)
    assert sum(type(each) in MODELS for each in gc.get_objects()) == 1, loaded


TRANSLATIONS = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 3, "n_best": 2},
    "samples": {"sample": True},
    "int8": {"precision": "int8"},
    "whole lines": {"split": "off"},
    "two workers": {"workers": 2},
}


@pytest.mark.parametrize("name", TRANSLATIONS)
def test_translate(untrained, name):
    regard.translate(["1 2 3", "4 5"], model=untrained, **TRANSLATIONS[name])


def test_translate_a_file(untrained, tmp_path):
    (tmp_path / "source.txt").write_text("1 2 3\n4 5\n")
    regard.translate_file(tmp_path / "source.txt", output=tmp_path / "target.txt", model=untrained)


def test_evaluate(untrained, tmp_path):
    (tmp_path / "source.txt").write_text("1 2 3\n4 5\n")
    regard.evaluate(model=untrained, src=tmp_path / "source.txt", ref=tmp_path / "source.txt")


def test_score(untrained, tmp_path):
    (tmp_path / "source.txt").write_text("1 2 3\n4 5\n")
    regard.score(model=untrained, src=tmp_path / "source.txt", ref=tmp_path / "source.txt")


def test_look(untrained):
    regard.look("1 2 3", model=untrained).get("summary")


@pytest.mark.parametrize("settings", [{}, {"num": 3}, {"beam_size": 2}])
def test_generate(decoder_folder, settings):
    regard.generate(["To be", "or"], model=decoder_folder("characters"), max_new_tokens=5, **settings)


def test_classify(encoder_folder):
    regard.classify(["a good film"], model=encoder_folder("classification", ("bad", "good")))


def test_tag(encoder_folder):
    regard.tag(["the cat sat"], model=encoder_folder("tokens", ("noun", "verb")))


def test_embed(encoder_folder):
    regard.embed(["a good film"], model=encoder_folder("pooled"))


def test_fill(encoder_folder):
    regard.fill(["a [MASK] film"], model=encoder_folder("masked_language_model"))
