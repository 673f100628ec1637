"""Checkpoints of OpenNMT-py give its logits and its ids."""

import shutil
from argparse import Namespace
from pathlib import Path

import pytest
import torch

import regard
from regard.cli import run
from regard.errors import FolderError
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.comparison import same_as_expected
from tests.weights.toolkits.peers import FIXTURES, made_by

MADE = sorted(path for path in (FIXTURES / "opennmt").iterdir() if path.is_dir())
FILE = "model_step_3.pt"


@pytest.mark.parametrize("folder", MADE, ids=lambda path: path.name)
def test_logits_and_ids_are_those_of_opennmt(folder, in_this_process):
    same_as_expected(folder, "opennmt")


def test_checkpoints_that_opennmt_makes_now_are_read(tmp_path):
    for folder in made_by("opennmt", tmp_path):
        same_as_expected(folder, "opennmt")


def copied(tmp_path: Path) -> Path:
    """A copy of a fixture."""
    return shutil.copytree(FIXTURES / "opennmt" / "biases", tmp_path / "model")


def test_names_of_older_versions_are_read(tmp_path, in_this_process):
    folder = copied(tmp_path)
    with torch.serialization.safe_globals([Namespace]):
        state = torch.load(folder / FILE, weights_only=True)
    state["generator"] = {f"0.{name}": tensor for name, tensor in state["generator"].items()}
    for name in [name for name in state["model"] if "layer_norm" in name]:
        old = name.replace(".weight", ".a_2").replace(".bias", ".b_2")
        state["model"][old] = state["model"].pop(name)
    torch.save(state, folder / FILE)
    same_as_expected(folder, "opennmt")


def test_several_checkpoints_are_named_and_one_is_converted_in_the_shell(tmp_path, in_this_process):
    folder = copied(tmp_path)
    shutil.copy(folder / FILE, folder / "model_step_4.pt")
    with pytest.raises(FolderError, match=r"model_step_3\.pt, model_step_4\.pt"):
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)
    out = tmp_path / "out"
    assert run(["convert", str(folder / FILE), "--trust-pickle", "--out", str(out)]) == 0
    loaded = regard.load(out)
    assert not loaded.model.config.source_end
    # onmt_translate: min(max_length, 1.25 * source length + 5)
    limits = ("max_length_ratio", "max_length_offset", "max_length")
    assert [loaded.generation[name] for name in limits] == [1.25, 5, 250]
    assert run(["translate", "the lowest house", "--model", str(out), "--device", "cpu"]) == 0
