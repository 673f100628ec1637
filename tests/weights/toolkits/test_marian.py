"""Marian's model.npz gives Marian's numbers, or is refused by the name of a setting."""

import numpy as np
import pytest
import torch

import regard
from regard.cli import run
from regard.errors import FolderError
from regard.weights.toolkits.load import load_toolkit, toolkit_of
from tests.weights.toolkits.marian_files import DEFAULTS, logits_of, write_model, write_words, yaml_text

pytest.importorskip("yaml")
SRC, TGT = [6, 2, 7, 11, 3, 0], [5, 7, 2, 9]
UNTIED = {"tied-embeddings-all": False}
EXPRESSIBLE = {
    "OPUS-MT": {},
    "output tied alone": {**UNTIED, "tied-embeddings": True},
    "both sides tied alone": {**UNTIED, "tied-embeddings-src": True},
    "tied by two settings": {**UNTIED, "tied-embeddings-src": True, "tied-embeddings": True},
    "nothing tied": UNTIED,
    "more target pieces": {**UNTIED, "dim-vocabs": [12, 14]},
    "more source pieces": {**UNTIED, "dim-vocabs": [14, 12], "tied-embeddings": True},
    "norm of the output alone": {"transformer-postprocess": "dna", "transformer-postprocess-top": "n"},
    "norm of the embeddings": {"transformer-postprocess-emb": "dn"},
    "relu": {"transformer-ffn-activation": "relu"},
    "no output bias": {"output-omit-bias": True},
    "shallow decoder": {"dec-depth": 1, "enc-depth": 3},
    "heads of an odd width": {"dim-emb": 6, "transformer-heads": 2},
}


def folder_of(tmp_path, settings):
    arrays = write_model(tmp_path, settings)
    rows = settings.get("dim-vocabs", [12, 12])
    if rows[0] == rows[1]:
        write_words(tmp_path)
    else:
        write_words(tmp_path, rows[0], "source.vocab.yml")
        write_words(tmp_path, rows[1], "target.vocab.yml")
    return arrays


@pytest.mark.parametrize("name", EXPRESSIBLE)
@torch.no_grad()
def test_logits_are_those_of_marian(tmp_path, name):
    settings = EXPRESSIBLE[name]
    arrays = folder_of(tmp_path, settings)
    loaded = load_toolkit(toolkit_of(tmp_path), tmp_path).loaded
    start = loaded.tokenizers.target.bos_id
    memory = loaded.model.encode(torch.tensor([SRC]), torch.tensor([len(SRC)]))
    ours = loaded.model.project(loaded.model.decoder_states(torch.tensor([[start, *TGT]]), memory))[0]
    theirs = torch.from_numpy(logits_of(arrays, settings, SRC, TGT)).float()
    torch.testing.assert_close(ours[:, :-1], theirs, rtol=1e-5, atol=1e-5)
    # the token that regard adds takes no probability
    torch.testing.assert_close(ours.log_softmax(-1)[:, :-1], theirs.log_softmax(-1), rtol=1e-5, atol=1e-5)


REFUSED = {
    "type": "s2s",
    "transformer-decoder-autoreg": "rnn",
    "transformer-ffn-activation": "gelu",
    "transformer-ffn-depth": 3,
    "transformer-decoder-dim-ffn": 4,
    "transformer-preprocess": "nd",
    "transformer-postprocess": "dhn",
    "transformer-postprocess-top": "n",
    "transformer-train-position-embeddings": True,
    "transformer-attention-mask": "alibi",
    "transformer-no-projection": True,
    "transformer-tied-layers": [1, 1],
    "right-left": True,
    "input-types": ["sequence", "class"],
    "lemma-dim-emb": 4,
    "dim-vocabs": [12, 13],
    "output-omit-bias": True,
    "a-new-setting": 1,
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_expressible_is_refused_by_name_and_value(tmp_path, name):
    folder_of(tmp_path, {})
    with np.load(tmp_path / "model.npz") as found:
        arrays = dict(found)
    text = arrays["special:model.yml"].tobytes().decode().rstrip("\0")
    assert text == yaml_text(DEFAULTS)
    text = yaml_text({**DEFAULTS, name: REFUSED[name]})
    np.savez(tmp_path / "model.npz", **{**arrays, "special:model.yml": np.frombuffer(text.encode(), np.int8)})
    with pytest.raises(FolderError, match=name) as caught:
        load_toolkit(toolkit_of(tmp_path), tmp_path)
    assert caught.value.hint
    value = REFUSED[name]
    assert str(value[-1] if isinstance(value, list) else value).lower() in caught.value.message.lower()


def test_a_tensor_more_or_less_is_named(tmp_path):
    folder_of(tmp_path, {})
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
    folder_of(tmp_path, {})
    with np.load(tmp_path / "model.npz") as found:
        arrays = dict(found)
    np.savez(tmp_path / "model.npz", **{**arrays, "Wemb": np.array([{}, None], dtype=object)})
    with pytest.raises(FolderError, match="plain arrays"):
        load_toolkit(toolkit_of(tmp_path), tmp_path)


def test_words_of_yaml_stay_words(tmp_path):
    folder_of(tmp_path, {})
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
    folder_of(source, {})
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
