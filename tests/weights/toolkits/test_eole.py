"""Checkpoints of eole give its logits and its ids, or are refused by the name of a setting."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import regard
from regard.cli import run
from regard.errors import FolderError
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.comparison import same_as_expected
from tests.weights.toolkits.peers import FIXTURES, made_by

MADE = sorted(path for path in (FIXTURES / "eole").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", MADE, ids=lambda path: path.name)
def test_logits_and_ids_are_those_of_eole(folder):
    if (folder / "sp.model").exists():
        pytest.importorskip("sentencepiece")
    same_as_expected(folder, "eole")


def test_checkpoints_that_eole_makes_now_are_read(tmp_path):
    for folder in made_by("eole", tmp_path):
        same_as_expected(folder, "eole")


def changed(tmp_path: Path, *path: str, to: object) -> Path:
    """A copy of a fixture with another value of a setting."""
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "eole" / "biases", folder)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    table = config
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = to
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    return folder


REFUSED = [
    (("model", "architecture"), "transformer_lm"),
    (("model", "encoder", "encoder_type"), "brnn"),
    (("model", "encoder", "encoder_layer_style"), "postnorm"),
    (("model", "encoder", "heads"), 4),
    (("model", "decoder", "coverage_attn"), True),
    (("model", "embeddings", "position_encoding_type"), "Alibi"),
    (("model", "embeddings", "embedding_layer_norm"), True),
    (("model", "embeddings"), {"position_encoding_type": "Learned"}),
    (("model", "mlp_activation_fn"), "quick_gelu"),
    (("model", "layer_norm"), "gemma-rms"),
    (("model", "parallel_residual"), True),
    (("model", "sliding_window"), 4),
    (("model", "add_key_bias"), False),
    (("model", "num_experts"), 2),
    (("model", "generator_function"), "sparsemax"),
    (("model", "a_new_setting"), 1),
    (("transforms",), ["onmt_tokenize"]),
    (("transforms_configs", "bpe", "src_vocab_threshold"), 50),
]


@pytest.mark.parametrize(("path", "value"), REFUSED, ids=lambda each: str(each))
def test_what_is_not_expressible_is_refused_by_name(tmp_path, path, value):
    folder = changed(tmp_path, *path, to=value)
    name = {"heads": "num_heads", "embeddings": "n_positions is missing"}.get(path[-1], path[-1])
    with pytest.raises(FolderError, match=name) as caught:
        load_toolkit(toolkit_of(folder), folder)
    assert caught.value.hint


def test_decoding_settings_that_regard_does_not_have_are_named(tmp_path, capsys):
    folder = changed(tmp_path, "inference", to={"alpha": 0.6, "replace_unk": True})
    assert run(["convert", str(folder), "--out", str(tmp_path / "converted")]) == 0
    assert "not converted: replace_unk = True" in capsys.readouterr().err
    assert regard.load(tmp_path / "converted").generation["alpha"] == 0.6


def test_a_layer_with_a_factor_is_refused(tmp_path):
    folder = changed(tmp_path, "seed", to=1)
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
