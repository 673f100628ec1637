"""Decoding defaults of toolkits are settings that regard takes."""

import pytest

from regard.decoding.settings import GenerationSettings
from regard.errors import FolderError
from regard.weights.toolkits import eole, fairseq, joeynmt, marian
from regard.weights.toolkits.decoding import search_settings
from regard.weights.toolkits.settings import Settings


@pytest.mark.parametrize("beams", [1, 4])
def test_a_search_has_settings_that_fit_it(beams):
    found = search_settings(beams, penalty="power", alpha=0.6, early_stopping=True, n_best=1, min_length=2)
    settings = GenerationSettings(**found)
    assert (settings.beam_size, settings.min_length, settings.early_stopping or False) == (
        beams,
        2,
        beams > 1,
    )
    assert search_settings(4) == {"beam_size": 4, "length_penalty": "none"}
    assert search_settings(4, penalty="wu") == search_settings(4), (
        "there is none unless its strength is given"
    )


@pytest.mark.parametrize("beams", [1, 6])
def test_the_defaults_of_each_toolkit_are_accepted(beams):
    found = {
        "marian": marian._decoding({"beam-size": str(beams), "normalize": "1"})[0],
        "joeynmt": joeynmt._decoding(Settings({"beam_size": str(beams), "beam_alpha": "1.0"}, "config.yaml"))[
            0
        ],
        "fairseq": fairseq._decoding({"cfg": {"generation": {"beam": beams, "lenpen": 0.5}}})[0],
        "eole": of_eole({"beam_size": beams, "length_penalty": "wu", "alpha": 0.8})[0],
    }
    for settings in found.values():
        assert GenerationSettings(**settings).beam_size == beams
    if beams > 1:
        assert [each["alpha"] for each in found.values()] == [1.0, 1.0, 0.5, 0.8]


def of_eole(inference):
    return eole._decoding(Settings(inference, "config.json", "inference."))


def test_the_defaults_of_eole_predict():
    found, unused = of_eole({})
    settings = GenerationSettings(**found)
    assert (settings.beam_size, settings.length_penalty, settings.alpha) == (5, "power", 1.0)
    # eole's translator: min(max_length, 2 * source length + 5)
    assert (settings.max_length_ratio, settings.max_length_offset, settings.max_length) == (2.0, 5, 250)
    assert unused == ()
    assert set(found) == {
        "beam_size", "length_penalty", "alpha", "max_length_ratio", "max_length_offset", "max_length",
    }  # fmt: skip


def test_the_decoding_settings_of_eole_are_followed():
    found, _ = of_eole({"max_length_ratio": 0.5, "min_length": 1, "block_ngram_repeat": 1})
    assert (found["max_length_ratio"], found["min_length"], found["no_repeat_ngram_size"]) == (0.5, 1, 1)
    assert of_eole({"min_length": 0, "block_ngram_repeat": 0, "n_best": 1}) == of_eole({})
    found, _ = of_eole({"length_penalty": "avg", "alpha": 0.6, "max_length_ratio": 0, "max_length": 99})
    assert (found["length_penalty"], found["alpha"], found["max_new_tokens"]) == ("power", 0.6, 99)
    assert "max_length_ratio" not in found
    found, _ = of_eole({"length_penalty": "none", "block_ngram_repeat": 3, "min_length": 2, "n_best": 4})
    settings = GenerationSettings(**found)
    assert (settings.length_penalty, settings.no_repeat_ngram_size) == ("none", 3)
    assert (settings.min_length, settings.n_best) == (2, 4)
    with pytest.raises(FolderError, match=r"inference\.length_penalty = 'average' is not supported"):
        of_eole({"length_penalty": "average"})


def test_decoding_settings_of_eole_that_regard_does_not_have_are_named():
    _, unused = of_eole({"coverage_penalty": "wu", "ban_unk_token": True, "top_k": 0, "optional_eos": []})
    assert unused == ("coverage_penalty = wu", "ban_unk_token = True")


def of_joeynmt(testing):
    return joeynmt._decoding(Settings(testing, "config.yaml", "testing."))


def of_fairseq(generation):
    return fairseq._decoding({"cfg": {"generation": generation}})


def test_the_defaults_of_joeynmt():
    """Greedy; at most one and a half times the source, its end counted, and a token more."""
    assert of_joeynmt({}) == ({"beam_size": 1, "max_length_ratio": 1.5, "max_length_offset": 1}, ())
    found, unused = of_joeynmt({"beam_size": 4})
    assert (found["length_penalty"], unused) == ("none", ())
    for alpha in (-1.0, 0.0):
        assert of_joeynmt({"beam_size": 4, "alpha": alpha})[0]["length_penalty"] == "none"


def test_the_decoding_settings_of_joeynmt_are_followed():
    for table, settings in (
        ({"alpha": 0.5}, {"length_penalty": "wu", "alpha": 0.5}),
        ({"beam_alpha": 0.7, "alpha": 0.5}, {"length_penalty": "wu", "alpha": 0.7}),
        ({"max_output_length": 9}, {"max_new_tokens": 9}),
        ({"min_output_length": 2}, {"min_length": 2}),
        ({"n_best": 3}, {"n_best": 3}),
        ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 3}),
        ({"repetition_penalty": 1.5}, {"repetition_penalty": 1.5}),
    ):
        found, unused = of_joeynmt({"beam_size": 4, **table})
        assert {name: found[name] for name in settings} == settings
        assert unused == ()
        GenerationSettings(**found)
    for table in ({"min_output_length": 1}, {"n_best": 1}, {"no_repeat_ngram_size": 0}):
        assert of_joeynmt({"beam_size": 4, **table}) == of_joeynmt({"beam_size": 4})
    assert of_joeynmt({"generate_unk": False})[1] == ("generate_unk = false",)


def test_the_defaults_of_fairseq_generate():
    plain = {
        "beam_size": 5, "length_penalty": "power", "alpha": 1.0, "early_stopping": True, "min_length": 1,
        "max_length_ratio": 0.0, "max_length_offset": 200,
    }  # fmt: skip
    assert of_fairseq({}) == (plain, ())
    for saved in ({}, {"cfg": None}, {"cfg": {}}, {"cfg": {"generation": None}}, {"args": {}}):
        assert fairseq._decoding(saved) == (plain, ())
    for table, settings in (
        ({"unnormalized": True}, {"length_penalty": "none"}),
        ({"lenpen": 0.5}, {"alpha": 0.5}),
        ({"min_len": 3}, {"min_length": 3}),
        ({"max_len_a": 1.5, "max_len_b": 9}, {"max_length_ratio": 1.5, "max_length_offset": 9}),
        ({"no_repeat_ngram_size": 3}, {"no_repeat_ngram_size": 3}),
    ):
        found, unused = of_fairseq(table)
        assert {name: found[name] for name in settings} == settings
        assert unused == ()
    assert of_fairseq({"unkpen": 0.5})[1] == ("unkpen = 0.5",)


def test_the_defaults_of_marian_decoder():
    found, unused = marian._decoding({})
    assert found == {
        "beam_size": 12, "length_penalty": "none", "max_length_ratio": 3.0, "max_length_offset": 3,
    }  # fmt: skip
    assert unused == ("allow-unk = false",)
    found, unused = marian._decoding({"max-length-factor": 0.2, "allow-unk": True, "word-penalty": 0.5})
    assert (found["max_length_ratio"], found["max_length_offset"]) == (0.2, 1)
    assert unused == ("word-penalty = 0.5",)
