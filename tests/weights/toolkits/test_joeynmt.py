"""Checkpoints of JoeyNMT give its logits and its ids."""

import shutil

import pytest

import regard
from regard.cli import run
from regard.errors import FolderError
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.comparison import same_as_expected
from tests.weights.toolkits.peers import FIXTURES, made_by

yaml = pytest.importorskip("yaml")
MADE = sorted(path for path in (FIXTURES / "joeynmt").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", MADE, ids=lambda path: path.name)
def test_logits_and_ids_are_those_of_joeynmt(folder, in_this_process):
    if (folder / "sp.model").exists():
        pytest.importorskip("sentencepiece")
    loaded = same_as_expected(folder, "joeynmt")
    assert loaded.generation["length_penalty"] == "wu"


def test_checkpoints_that_joeynmt_makes_now_are_read(tmp_path):
    for folder in made_by("joeynmt", tmp_path):
        same_as_expected(folder, "joeynmt")


def test_a_checkpoint_is_a_pickle_and_needs_trust(tmp_path, capsys, forked_reader):
    folder = FIXTURES / "joeynmt" / "words"
    assert run(["convert", str(folder), "--out", str(tmp_path / "model")]) == 2
    assert "--trust-pickle" in capsys.readouterr().err
    assert run(["convert", str(folder), "--trust-pickle", "--out", str(tmp_path / "model")]) == 0
    assert regard.load(tmp_path / "model").generation["beam_size"] == 5
    assert run(["translate", "the lowest house", "--model", str(tmp_path / "model"), "--device", "cpu"]) == 0


class Hostile:
    """Code in a pickle."""

    def __reduce__(self):
        return (exec, ("open('ran', 'w')",))


def test_code_in_a_checkpoint_is_refused_and_not_run(tmp_path, monkeypatch, forked_reader):
    import torch

    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "joeynmt" / "words", folder)
    monkeypatch.chdir(tmp_path)
    torch.save({"model_state": {}, "stats": Hostile()}, folder / "best.ckpt")
    with pytest.raises(FolderError, match="exec"):
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)
    assert not (tmp_path / "ran").exists()
