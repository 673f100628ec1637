"""A server names what a model can do and no request can ask for."""

import pytest

from regard.errors import FolderError
from regard.verbs.serve import ServedModel


def test_a_tagger_is_refused_with_its_command(encoder_folder):
    with pytest.raises(FolderError, match="no call for its labels of words") as caught:
        ServedModel(encoder_folder("tokens", ("O", "B-PER")))
    assert "regard tag" in caught.value.hint


def test_a_masked_language_model_embeds_and_a_note_says_so(encoder_folder, capsys):
    model = ServedModel(encoder_folder("masked_language_model"))
    model.prepare()
    assert model.tasks == ("embed",)
    assert "no call that fills masks" in capsys.readouterr().err
