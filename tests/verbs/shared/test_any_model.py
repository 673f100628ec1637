"""A model is read once: what `regard.load` gives is what every verb takes."""

import numpy as np
import pytest
import torch

import regard
from regard.errors import FolderError, UserError
from regard.verbs.shared.any_model import open_model
from regard.verbs.shared.runtime import DecodingRuntime, Runtime


@pytest.fixture
def texts(tmp_path):
    file = tmp_path / "lines"
    file.write_text("1 2\n3\n")
    return file


def test_translating_verbs_take_a_path_a_string_and_a_loaded_model(untrained, texts, monkeypatch):
    wanted = regard.translate("1 2 3", model=untrained)
    assert regard.translate("1 2 3", model=str(untrained)) == wanted
    loaded = regard.load(untrained)
    scores = regard.score(model=untrained, src=texts, ref=texts).scores
    monkeypatch.setattr("regard.verbs.shared.any_model.load_named_model", None)  # nothing is read any more
    assert regard.translate("1 2 3", model=loaded) == wanted
    assert next(regard.Translator(loaded)(["1 2 3"])).text == wanted
    assert regard.summarize("1 2 3", model=loaded) == wanted
    assert regard.score(model=loaded, src=texts, ref=texts).scores == scores
    assert regard.evaluate(model=loaded, src=texts, ref=texts, workers=1).examples == "2 sentences"
    assert regard.look("1 2", loaded).summary["text"] == "1 2"
    assert regard.load(loaded) is loaded


def test_other_verbs_take_a_loaded_model(encoder_folder, decoder_folder):
    for verb, text, folder in (
        (regard.classify, "a film", encoder_folder("classification", ("good", "bad"))),
        (regard.tag, "a film", encoder_folder("tokens", ("A", "B"))),
        (regard.fill, "a [MASK]", encoder_folder("masked_language_model")),
        (regard.generate, "To be", decoder_folder()),
    ):
        assert verb(text, model=regard.load(folder)) == verb(text, model=folder)
    encoder = encoder_folder("pooled")
    vectors = [regard.embed("a film", model=model) for model in (encoder, regard.load(encoder))]
    torch.testing.assert_close(*vectors, rtol=0, atol=0)


def test_models_of_another_kind_and_values_that_are_no_model_are_refused(untrained, encoder_folder):
    translator, encoder = regard.load(untrained), regard.load(encoder_folder("classification", ("a", "b")))
    for call in (regard.classify, regard.generate, regard.fill, regard.embed, regard.tag):
        with pytest.raises(FolderError, match="this is not a model that") as caught:
            call("1 2", model=translator)
        assert "regard translate" in caught.value.hint
    with pytest.raises(FolderError, match="not a model that translates") as caught:
        regard.translate("a", model=encoder)
    assert "regard classify" in caught.value.hint
    with pytest.raises(UserError, match="model must be"):
        regard.translate("a", model=translator.model)
    with pytest.raises(FolderError, match="not a model that classifies images"):
        regard.classify_images(np.zeros((1, 1, 4, 4), np.uint8), model=translator)


def test_a_loaded_model_is_not_changed_or_moved(untrained):
    loaded = regard.load(untrained, device="cpu")
    assert open_model(loaded) is loaded
    assert open_model(loaded, Runtime(device="cpu")) is loaded
    copied = open_model(loaded, DecodingRuntime(precision="int8"))
    assert copied.model is not loaded.model
    assert copied.path == loaded.path
    if torch.cuda.is_available():
        with pytest.raises(UserError, match="device is cuda, but this model is loaded on cpu"):
            open_model(loaded, Runtime(device="cuda"))


def test_the_repr_of_a_loaded_model_and_of_a_look(untrained):
    loaded = regard.load(untrained)
    assert repr(loaded).startswith("<Loaded: encoder_decoder, ")
    assert str(untrained) in repr(loaded)
    assert "it translates" in repr(loaded)
    look = loaded.look("1 2")
    assert repr(look).startswith("<Look: '1 2' -> '")
    assert f"{len(look.paths())} resources" in repr(look)
    assert "..." in repr(loaded.look("1 " * 50))
    assert "\n" not in repr(loaded) + repr(look)


@torch.no_grad()
def test_an_encoder_with_symmetric_alibi_gives_a_warning(encoder_folder, decoder_folder, capsys):
    """A text and its reverse were the same to ALiBi that counts both directions alike."""
    ids, lengths, warning = (
        torch.tensor([[2, 7, 5, 9, 11, 3]]),
        torch.tensor([6]),
        "cannot distinguish a text",
    )
    for alibi, blind in (("symmetric", True), ("directed", False)):
        folder = encoder_folder("classification", ("good", "bad"), positions="alibi", alibi=alibi)
        model = regard.load(folder).model
        difference = (model(ids, lengths) - model(ids.flip(1), lengths)).abs().max()
        assert (difference < 1e-5) == blind
        assert (difference > 1e-3) != blind
        assert (warning in " ".join(capsys.readouterr().err.split())) == blind
    regard.load(decoder_folder(positions="alibi", alibi="symmetric"))  # which sees only what came before
    assert warning not in " ".join(capsys.readouterr().err.split())
