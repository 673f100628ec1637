"""A command verifies the files of a model folder once: hashing the weights of a large model takes seconds."""

from collections import Counter

import pytest
from click.testing import CliRunner

from regard.cli import regard
from regard.errors import FolderError
from regard.verbs.shared.model_loading import config_class_of
from regard.verbs.tag import Tagger
from regard.weights import folder as folders
from regard.weights.model_folder import open_model_folder


@pytest.fixture
def hashed(monkeypatch):
    """How often the SHA-256 of each file is computed, by file name."""
    counts, sha256 = Counter(), folders._sha256

    def counted(path):
        counts[path.name] += 1
        return sha256(path)

    monkeypatch.setattr(folders, "_sha256", counted)
    return counts


def test_the_command_classify_verifies_the_weights_once(encoder_folder, hashed, tmp_path):
    model = encoder_folder("classification", ("bad", "good"))
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film\n", "utf-8")
    hashed.clear()
    result = CliRunner().invoke(regard, ["classify", "--model", str(model), "--input", str(texts)])
    assert result.exit_code == 0, result.output
    assert hashed["model.safetensors"] == 1
    assert max(hashed.values()) <= 3  # config.json tells what the model reads: images, graphs or text


def test_a_tagger_verifies_each_file_once(encoder_folder, hashed):
    model = encoder_folder("tokens", ("NOUN", "VERB"), others={"words.json": b'{"column": "xpos"}'})
    hashed.clear()
    assert Tagger(model).column == "xpos"
    assert set(hashed.values()) == {1}


def test_the_kind_of_a_model_follows_from_its_config_alone(encoder_folder, hashed):
    model = encoder_folder("classification", ("bad", "good"))
    (model / "model.safetensors").unlink()
    hashed.clear()
    config_class_of(model)
    assert hashed == {"config.json": 1}
    (model / "config.json").write_text("{}", "utf-8")
    with pytest.raises(FolderError, match=r"config\.json has 2 bytes instead of"):
        config_class_of(model)


def test_what_was_not_verified_cannot_be_read(encoder_folder):
    folder = open_model_folder(encoder_folder("classification", ("bad", "good")), {"config.json"})
    with pytest.raises(FolderError, match=r"has no tokenizer\.json"):
        folder.read_bytes("tokenizer.json")
