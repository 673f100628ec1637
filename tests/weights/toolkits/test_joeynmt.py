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


@pytest.mark.parametrize(
    ("fixture", "file", "key"),
    [
        ("bpe", "codes.txt", "data.src.tokenizer_cfg.codes"),
        ("pieces", "sp.model", "data.src.tokenizer_cfg.model_file"),
        ("words", "trg_vocab.txt", "data.trg"),
    ],
)
def test_a_missing_file_is_named_with_the_setting_that_names_it(tmp_path, fixture, file, key):
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "joeynmt" / fixture, folder)
    (folder / file).unlink()
    with pytest.raises(FolderError, match=f"{file} is missing; .*{key}") as caught:
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)
    assert "copy it from" in caught.value.hint


def test_parts_of_a_checkpoint_lead_to_its_folder(tmp_path, capsys):
    def refused(*arguments):
        assert run([*map(str, arguments)]) == 2
        return capsys.readouterr().err

    folder, out = tmp_path / "model", ("--out", tmp_path / "out")
    shutil.copytree(FIXTURES / "joeynmt" / "words", folder)
    config = folder / "config.yaml"
    assert f"give the folder: regard convert {folder}" in refused("convert", config, *out)
    assert "recipes are TOML" in (error := refused("train", config))
    assert "docs/do/coming-from-toolkits.md" in error
    assert "regard convert FOLDER" in error
    (folder / "best.ckpt").rename(tmp_path / "elsewhere.ckpt")
    assert "is a YAML file, not a model" in refused("convert", config, *out)
    (tmp_path / "elsewhere.ckpt").rename(folder / "best.ckpt")
    config.unlink()
    for path in (folder, folder / "best.ckpt"):
        assert "but no config.yaml, which a checkpoint of JoeyNMT needs" in refused("convert", path, *out)


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
