"""Checkpoints of eole give its logits and its ids."""

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.cli import run
from regard.errors import FolderError
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.comparison import same_as_expected
from tests.weights.toolkits.peers import FIXTURES, made_by
from tests.weights.toolkits.refusals import Refusal, changed

MADE = sorted(path for path in (FIXTURES / "eole").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", MADE, ids=lambda path: path.name)
def test_logits_and_ids_are_those_of_eole(folder):
    if (folder / "sp.model").exists():
        pytest.importorskip("sentencepiece")
    same_as_expected(folder, "eole")


def test_checkpoints_that_eole_makes_now_are_read(tmp_path):
    for folder in made_by("eole", tmp_path):
        same_as_expected(folder, "eole")


def test_decoding_settings_that_regard_does_not_have_are_named(tmp_path, capsys):
    folder = changed(
        "eole", Refusal(name="inference", value={"alpha": 0.6, "replace_unk": True}), tmp_path / "model"
    )
    assert run(["convert", str(folder), "--out", str(tmp_path / "converted")]) == 0
    assert "not converted: replace_unk = True" in capsys.readouterr().err
    assert regard.load(tmp_path / "converted").generation["alpha"] == 0.6


def test_a_layer_with_a_factor_is_refused(tmp_path):
    folder = changed("eole", Refusal(name="seed", value=1), tmp_path / "model")
    tensors = load_file(folder / "model.00.safetensors")
    tensors["decoder.transformer_layers.0.layer_scalar"] = torch.tensor([0.5])
    save_file(tensors, folder / "model.00.safetensors")
    with pytest.raises(FolderError, match="layer_scalar"):
        load_toolkit(toolkit_of(folder), folder)


def test_a_folder_is_converted_in_the_shell_and_translates(tmp_path, capsys):
    folder = FIXTURES / "eole" / "biases"
    assert run(["convert", str(folder), "--out", str(tmp_path / "model")]) == 0
    loaded = regard.load(tmp_path / "model")
    assert not loaded.model.config.source_end
    assert loaded.generation["max_length"] == 250
    assert run(["translate", "the lowest house", "--model", str(tmp_path / "model"), "--device", "cpu"]) == 0
    assert "a checkpoint of eole" in (tmp_path / "model" / "README.md").read_text()
