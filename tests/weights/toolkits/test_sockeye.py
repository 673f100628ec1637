"""Checkpoints of Sockeye give its logits and its ids."""

import shutil

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


def test_weights_of_another_tying_are_refused(tmp_path, in_this_process):
    folder = shutil.copytree(FIXTURES / "sockeye" / "shared", tmp_path / "model")
    tensors = torch.load(folder / "params.best", weights_only=True)
    tensors["output_layer.weight"] = tensors["output_layer.weight"] + 1
    torch.save(tensors, folder / "params.best")
    with pytest.raises(FolderError, match=r"output_layer\.weight"):
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)


def test_a_folder_is_converted_in_the_shell_and_translates(tmp_path, capsys, forked_reader):
    folder = FIXTURES / "sockeye" / "learned"
    assert run(["convert", str(folder), "--trust-pickle", "--out", str(tmp_path / "model")]) == 0
    assert "length_ratio" in capsys.readouterr().err
    generation = regard.load(tmp_path / "model").generation
    assert (generation["max_length_ratio"], generation["max_length_offset"]) == (1.7, 2)
    assert run(["translate", "the lowest house", "--model", str(tmp_path / "model"), "--device", "cpu"]) == 0
