"""A model folder can set that texts in capitals are read in lower case."""

import pytest

from regard.verbs.generation.prefixes import Prefix
from regard.verbs.shared.included_models import included_model
from regard.verbs.translate import translate
from regard.verbs.views.encoder_decoder_reader import EncoderDecoderReader
from regard.verbs.views.request import LookRequest
from regard.weights.folder import write_folder
from regard.weights.model_folder import load_model, model_files_of, open_model_folder
from regard.weights.strict_json import json_bytes


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The included model, with and without lowercasing of capitals."""
    folder = open_model_folder(included_model())
    settings = folder.read_json("generation.json")
    tensors = folder.read_tensors("model.safetensors")
    paths = {}
    for lower in (True, False):
        paths[lower] = tmp_path_factory.mktemp("models") / f"{lower}"
        decoding = {"generation.json": json_bytes({**settings, "lower_capitals": lower})}
        write_folder(paths[lower], {**model_files_of(folder), **decoding, "model.safetensors": tensors})
    return paths


def test_only_texts_in_capitals_are_lowercased():
    lowering = Prefix(text="> ", lower_capitals=True)
    for text in ("WHERE IS IT?", "ÖL IST 3,50 €!", "IT'S ME"):
        assert lowering.before(text) == f"> {text.lower()}"
    for text in ("NATO", "Where is the USA?", "I am HERE", "where is it?", "12 34", "X", ""):
        assert lowering.before(text) == (f"> {text}" if text else "")
    assert Prefix().before("WHERE IS IT?") == "WHERE IS IT?"


def test_a_model_folder_sets_whether_capitals_are_lowercased(models):
    text = "WHERE IS THE STATION?"
    assert translate(text, model=models[True]) == translate(text.lower(), model=models[True])
    looking = {lower: EncoderDecoderReader(load_model(path)) for lower, path in models.items()}
    request, lower = LookRequest(text=text), LookRequest(text=text.lower())
    assert looking[True]._source_ids(request) == looking[True]._source_ids(lower)
    assert looking[False]._source_ids(request) != looking[False]._source_ids(lower)
