"""Checkpoints of JoeyNMT give its logits and its ids, or are refused by the name of a setting."""

import shutil
from pathlib import Path

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


def changed(tmp_path: Path, *path: str, to: object) -> Path:
    """A copy of a fixture with another value of a setting."""
    folder = tmp_path / "model"
    shutil.copytree(FIXTURES / "joeynmt" / "words", folder)
    config = yaml.safe_load((folder / "config.yaml").read_text("utf-8"))
    table = config
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = to
    (folder / "config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    return folder


REFUSED = [
    (("model", "encoder", "type"), "recurrent"),
    (("model", "encoder", "alpha"), 0.9),
    (("model", "decoder", "layer_norm"), "post"),
    (("model", "decoder", "activation"), "tanh"),
    (("model", "decoder", "num_heads"), 4),
    (("model", "encoder", "embeddings", "embedding_dim"), 4),
    (("model", "encoder", "hidden_size"), 16),
    (("model", "something"), 1),
    (("task",), "S2T"),
    (("data", "src", "level"), "syllable"),
    (("data", "src", "tokenizer_cfg", "pretokenizer"), "moses"),
    (("data", "special_symbols", "lang_tags"), ["<de>"]),
    (("data", "special_symbols", "pad_id"), 0),
]


@pytest.mark.parametrize(("path", "value"), REFUSED, ids=lambda each: str(each))
def test_what_is_not_expressible_is_refused(tmp_path, path, value, in_this_process):
    folder = changed(tmp_path, *path, to=value)
    with pytest.raises(FolderError) as caught:
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)
    assert caught.value.hint


def test_settings_that_are_refused_are_named(tmp_path, in_this_process):
    folder = changed(tmp_path, "model", "encoder", "alpha", to=0.9)
    with pytest.raises(FolderError, match=r"model\.encoder\.alpha = '0\.9'"):
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)


def test_a_checkpoint_is_a_pickle_and_needs_trust(tmp_path, capsys):
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


def test_code_in_a_checkpoint_is_refused_and_not_run(tmp_path, monkeypatch):
    import torch

    folder = changed(tmp_path, "name", to="x")
    monkeypatch.chdir(tmp_path)
    torch.save({"model_state": {}, "stats": Hostile()}, folder / "best.ckpt")
    with pytest.raises(FolderError, match="exec"):
        load_toolkit(toolkit_of(folder), folder, trust_pickle=True)
    assert not (tmp_path / "ran").exists()
