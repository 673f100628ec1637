"""Decoding defaults of toolkits are settings that regard takes."""

import pytest

from regard.decoding.settings import GenerationSettings
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
        "eole": eole._decoding({"beam_size": beams, "length_penalty": "wu", "alpha": 0.8}),
    }
    for settings in found.values():
        assert GenerationSettings(**settings).beam_size == beams
    if beams > 1:
        assert [each["alpha"] for each in found.values()] == [1.0, 1.0, 0.5, 0.8]
    with_none = eole._decoding({"length_penalty": "none"})
    assert GenerationSettings(**with_none).length_penalty == "none"
