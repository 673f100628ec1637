"""The repr of what keeps a model: its class, and the kind, size, device and folder of the model."""

import regard
from regard.verbs.score import PairScorer
from regard.verbs.tag import Tagger


def test_a_verb_with_a_model_shows_it(untrained, decoder_folder, encoder_folder):
    for kind, folder, name in (
        (regard.Translator, untrained, "encoder_decoder"),
        (PairScorer, untrained, "encoder_decoder"),
        (regard.Generator, decoder_folder(), "decoder_only"),
        (Tagger, encoder_folder("tokens", ("A", "B")), "encoder_only"),
    ):
        shown = repr(kind(folder))
        assert shown.startswith(f"<{kind.__name__}: {name}, ")
        assert "parameters, on cpu, " in shown
        assert str(folder) in shown
        assert "\n" not in shown
