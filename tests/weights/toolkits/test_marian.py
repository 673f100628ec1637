"""Marian's model.npz gives Marian's numbers."""

import numpy as np
import pytest
import torch

import regard
from regard.cli import run
from regard.errors import FolderError
from regard.weights.toolkits import marian
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.marian_files import EXPRESSIBLE, logits_of, write_model, write_words
from tests.weights.toolkits.refusals import marian_folder

pytest.importorskip("yaml")
SRC, TGT = [6, 2, 7, 11, 3, 0], [5, 7, 2, 9]


@pytest.mark.parametrize("name", EXPRESSIBLE)
@torch.no_grad()
def test_logits_are_those_of_marian(tmp_path, name):
    settings = EXPRESSIBLE[name]
    arrays = marian_folder(tmp_path, settings)
    loaded = load_toolkit(toolkit_of(tmp_path), tmp_path).loaded
    start = loaded.tokenizers.target.bos_id
    memory = loaded.model.encode(torch.tensor([SRC]), torch.tensor([len(SRC)]))
    ours = loaded.model.project(loaded.model.decoder_states(torch.tensor([[start, *TGT]]), memory))[0]
    theirs = torch.from_numpy(logits_of(arrays, settings, SRC, TGT)).float()
    torch.testing.assert_close(ours[:, :-1], theirs, rtol=1e-5, atol=1e-5)
    # the token that regard adds takes no probability
    torch.testing.assert_close(ours.log_softmax(-1)[:, :-1], theirs.log_softmax(-1), rtol=1e-5, atol=1e-5)


def test_a_tensor_more_or_less_is_named(tmp_path):
    marian_folder(tmp_path, {})
    with np.load(tmp_path / "model.npz") as found:
        arrays = dict(found)
    np.savez(tmp_path / "model.npz", **arrays, encoder_l3_self_Wq=np.zeros((8, 8), np.float32))
    with pytest.raises(FolderError, match="encoder_l3_self_Wq"):
        load_toolkit(toolkit_of(tmp_path), tmp_path)
    del arrays["decoder_l2_context_bk"]
    np.savez(tmp_path / "model.npz", **arrays)
    with pytest.raises(FolderError, match="decoder_l2_context_bk"):
        load_toolkit(toolkit_of(tmp_path), tmp_path)


def test_arrays_of_objects_which_are_pickles_are_refused(tmp_path):
    marian_folder(tmp_path, {})
    with np.load(tmp_path / "model.npz") as found:
        arrays = dict(found)
    np.savez(tmp_path / "model.npz", **{**arrays, "Wemb": np.array([{}, None], dtype=object)})
    with pytest.raises(FolderError, match="plain arrays"):
        load_toolkit(toolkit_of(tmp_path), tmp_path)


def test_words_of_yaml_stay_words(tmp_path):
    marian_folder(tmp_path, {})
    tokenizer = load_toolkit(toolkit_of(tmp_path), tmp_path).loaded.tokenizers.source
    assert tokenizer.encode("no 12 null ~ das  haus a:b Unbekannt </s> <pad>") == [
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        *[1] * 3,
    ]
    assert tokenizer.decode([6, 7, 2, 0]) == "das haus no"


def test_a_folder_is_converted_in_the_shell_and_translates(tmp_path, capsys):
    source = tmp_path / "marian"
    source.mkdir()
    marian_folder(source, {})
    (source / "decoder.yml").write_text(
        "models:\n  - model.npz\nvocabs:\n  - vocab.yml\n  - vocab.yml\nbeam-size: 4\nnormalize: 0.6\n"
        "word-penalty: 0.5\nallow-unk: true\nmini-batch: 16\n"
    )
    assert run(["convert", str(source), "--out", str(tmp_path / "model")]) == 0
    printed = capsys.readouterr()
    assert "decoding defaults that were not converted: word-penalty = 0.5" in printed.err
    generation = regard.load(tmp_path / "model").generation
    assert (generation["beam_size"], generation["length_penalty"], generation["alpha"]) == (4, "power", 0.6)
    assert "a checkpoint of Marian" in (tmp_path / "model" / "README.md").read_text()
    assert run(["translate", "das haus", "--model", str(tmp_path / "model"), "--device", "cpu"]) == 0
    assert capsys.readouterr().out.endswith("\n")


def test_several_models_and_missing_vocabularies_are_named(tmp_path):
    write_model(tmp_path, {}, "one.npz")
    with pytest.raises(FolderError, match="vocabular"):
        load_toolkit(toolkit_of(tmp_path), tmp_path)
    write_model(tmp_path, {}, "two.npz")
    with pytest.raises(FolderError, match=r"one\.npz, two\.npz"):
        load_toolkit(toolkit_of(tmp_path), tmp_path)
    write_words(tmp_path)
    assert load_toolkit(toolkit_of(tmp_path / "two.npz"), tmp_path / "two.npz").family == "marian"


@pytest.mark.parametrize("others", [(), ("a.npz",), ("a.npz", "z.npz")])
def test_the_usual_name_of_a_model_comes_first(tmp_path, others):
    for name in ("model.npz", *others):
        (tmp_path / name).touch()
    assert marian._model_file(tmp_path) == tmp_path / "model.npz"
