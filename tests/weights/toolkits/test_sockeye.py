"""Checkpoints of Sockeye give its logits and its ids, or are refused by the name of a setting."""

import shutil
from pathlib import Path

import pytest
import torch

import regard
from regard.cli import run
from regard.errors import FolderError
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.comparison import same_as_expected
from tests.weights.toolkits.peers import FIXTURES, made_by

pytest.importorskip("yaml")
MADE = sorted(path for path in (FIXTURES / "sockeye").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", MADE, ids=lambda path: path.name)
def test_logits_and_ids_are_those_of_sockeye(folder, in_this_process):
    same_as_expected(folder, "sockeye")


def test_checkpoints_that_sockeye_makes_now_are_read(tmp_path):
    for folder in made_by("sockeye", tmp_path):
        same_as_expected(folder, "sockeye")


def changed(tmp_path: Path, old: str, new: str) -> Path:
    """A copy of a fixture with another line in its settings."""
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "sockeye" / "shared", folder)
    text = (folder / "config").read_text("utf-8")
    assert old in text
    (folder / "config").write_text(text.replace(old, new), "utf-8")
    return folder


REFUSED = [
    ("decoder_type", "decoder_type: transformer", "decoder_type: ssru_transformer"),
    ("lhuc", "\nlhuc: false", "\nlhuc: true"),
    ("use_lhuc", "use_lhuc: false", "use_lhuc: true"),
    ("neural_vocab_selection", "neural_vocab_selection: null", "neural_vocab_selection: logit_max"),
    ("num_source_factors", "num_source_factors: 1", "num_source_factors: 2"),
    ("postprocess_sequence", "postprocess_sequence: dr", "postprocess_sequence: drn"),
    ("block_prepended_cross_attention", "cross_attention: false", "cross_attention: true"),
    ("act_type", "act_type: relu", "act_type: softrelu"),
    ("positional_embedding_type", "embedding_type: fixed", "embedding_type: none"),
    ("weight_tying_type", "weight_tying_type: src_trg_softmax", "weight_tying_type: src"),
    ("a_new_setting", "\nlhuc: false", "\nlhuc: false\na_new_setting: 1"),
]


@pytest.mark.parametrize(("name", "old", "new"), REFUSED, ids=lambda each: each.strip())
def test_what_is_not_expressible_is_refused_by_name(tmp_path, name, old, new, in_this_process):
    folder = changed(tmp_path, old, new)
    with pytest.raises(FolderError, match=name) as caught:
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)
    assert caught.value.hint


def test_weights_of_another_tying_are_refused(tmp_path, in_this_process):
    folder = changed(tmp_path, "lhuc: false", "lhuc: false")
    tensors = torch.load(folder / "params.best", weights_only=True)
    tensors["output_layer.weight"] = tensors["output_layer.weight"] + 1
    torch.save(tensors, folder / "params.best")
    with pytest.raises(FolderError, match=r"output_layer\.weight"):
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)


def test_a_folder_is_converted_in_the_shell_and_translates(tmp_path, capsys):
    folder = FIXTURES / "sockeye" / "learned"
    assert run(["convert", str(folder), "--trust-pickle", "--out", str(tmp_path / "model")]) == 0
    assert "length_ratio" in capsys.readouterr().err
    generation = regard.load(tmp_path / "model").generation
    assert (generation["max_length_ratio"], generation["max_length_offset"]) == (1.7, 2)
    assert run(["translate", "the lowest house", "--model", str(tmp_path / "model"), "--device", "cpu"]) == 0
