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
    assert search_settings(4)["length_penalty"] == "none"


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


def test_the_decoding_settings_of_eole_are_followed():
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
