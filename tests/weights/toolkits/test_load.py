"""A toolkit is known by its files; a checkpoint that makes no model is refused by its path."""

import subprocess

import pytest

from regard.data.tokenizer import TokenizerPair
from regard.errors import ConfigError, DataError, FolderError
from regard.weights.toolkits import load
from regard.weights.toolkits.comet import Comet
from regard.weights.toolkits.load import load_toolkit, toolkit_of, with_encoder
from tests.weights.toolkits.marian_files import write_model, write_words
from tests.weights.toolkits.peers import FIXTURES

pytest.importorskip("yaml")
FILES = {  # what a folder has -> the toolkit, and the files by which it may be named
    ("model.npz",): ("marian", ("model.npz",)),
    ("a.npz", "b.npz", "decoder.yml"): ("marian", ("a.npz", "b.npz")),
    ("config.yaml", "best.ckpt"): ("joeynmt", ("best.ckpt",)),
    ("config.json", "vocab.json", "model.00.safetensors"): ("eole", ()),
    ("model.pt", "dict.de.txt"): ("fairseq", ("model.pt",)),
    ("config", "params.best", "vocab.src.0.json"): ("sockeye", ("params.best",)),
    ("a_step_10.pt",): ("opennmt", ("a_step_10.pt",)),
    ("hparams.yaml", "checkpoints/model.ckpt"): ("comet", ("checkpoints/model.ckpt",)),
}
NONE = [  # each lacks a file of a toolkit
    (),
    ("config.json", "model.npz"),  # of regard or Hugging Face, with other arrays beside it
    ("config.yaml",),
    ("best.ckpt",),
    ("config.json", "model.00.safetensors"),
    ("vocab.json", "config.json"),
    ("model.pt",),
    ("dict.de.txt",),
    ("config", "params.best"),
    ("config", "vocab.src.0.json"),
    ("params.best", "vocab.src.0.json"),
    ("hparams.yaml", "model.ckpt.txt"),
    ("checkpoints/model.ckpt",),
]
NAMED_NONE = [  # a file, and what is beside it
    ("model.zip", ()),
    ("model.safetensors", ("vocab.json", "config.json")),
    ("model.npz.txt", ()),
    ("best.txt", ("config.yaml", "best.ckpt")),
    ("dict.de.txt", ("model.pt",)),
    ("weights.best", ("config", "params.best", "vocab.src.0.json")),
    ("params.best", ("config",)),
    ("params.best", ("vocab.src.0.json",)),
]


def made(folder, names):
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()
    return folder


def name_of(path):
    found = toolkit_of(path)
    return None if found is None else found.name


@pytest.mark.parametrize("files", FILES, ids=str)
def test_a_toolkit_is_known_by_its_files(tmp_path, files):
    name, checkpoints = FILES[files]
    made(tmp_path, files)
    assert name_of(tmp_path) == name
    assert [name_of(tmp_path / each) for each in checkpoints] == [name] * len(checkpoints)


@pytest.mark.parametrize("files", NONE, ids=str)
def test_a_folder_that_lacks_one_is_of_no_toolkit(tmp_path, files):
    assert name_of(made(tmp_path, files)) is None
    assert name_of(tmp_path / "nothing") is None


@pytest.mark.parametrize(("file", "beside"), NAMED_NONE)
def test_so_is_a_file_that_is_no_checkpoint_of_it(tmp_path, file, beside):
    made(tmp_path, (file, *beside))
    assert name_of(tmp_path / file) is None


def test_only_a_metric_of_comet_has_an_encoder_of_its_own(tmp_path):
    made(tmp_path, ("model.npz",))
    for toolkit in (None, toolkit_of(tmp_path)):
        with pytest.raises(FolderError, match="this is not a metric of COMET") as caught:
            with_encoder(toolkit, tmp_path)
        assert caught.value.hint
    assert with_encoder(Comet(), tmp_path).encoder == tmp_path


def test_a_model_has_the_path_of_its_folder_and_one_tokenizer_if_both_are_equal(tmp_path):
    write_model(tmp_path)
    write_words(tmp_path)
    loaded = load_toolkit(toolkit_of(tmp_path), tmp_path).loaded
    assert loaded.path == tmp_path
    assert isinstance(loaded.tokenizer_pair, TokenizerPair)
    assert loaded.tokenizer_pair.source is loaded.tokenizer_pair.target
    assert not loaded.model.training
    write_model(tmp_path, {"dim-vocabs": [12, 14], "tied-embeddings-all": False})
    (tmp_path / "vocab.yml").unlink()
    write_words(tmp_path, 12, "source.yml")
    write_words(tmp_path, 14, "target.yml")
    pair = load_toolkit(toolkit_of(tmp_path), tmp_path).loaded.tokenizer_pair
    # the source has room for the token that the decoder begins with
    assert (pair.source.vocab_size, pair.target.vocab_size) == (15, 15)
    assert pair.source is not pair.target


@pytest.mark.parametrize("error", [ConfigError("a setting", "change it"), DataError("a file", "copy it")])
def test_what_a_reader_refuses_is_named_with_the_path(tmp_path, monkeypatch, error):
    write_model(tmp_path)
    toolkit = toolkit_of(tmp_path)

    def refuse(path, *, trust_pickle):
        assert trust_pickle is False, "nobody trusts a pickle unless it is asked to"
        raise error

    monkeypatch.setattr(toolkit, "read", refuse)
    with pytest.raises(FolderError) as caught:
        load_toolkit(toolkit, tmp_path)
    assert (caught.value.message, caught.value.hint) == (f"{tmp_path}: {error.message}", error.hint)


def test_settings_of_a_far_larger_model_are_refused_before_it_is_built(tmp_path, monkeypatch):
    write_model(tmp_path, {"dec-depth": 2})
    write_words(tmp_path)
    toolkit = toolkit_of(tmp_path)
    read = toolkit.read

    def deeper(path, **more):
        found = read(path, **more)
        object.__setattr__(found.config, "num_encoder_layers", 5000)
        return found

    monkeypatch.setattr(toolkit, "read", deeper)
    monkeypatch.setattr(load, "build_uninitialised", lambda config: pytest.fail("it was built"))
    with pytest.raises(FolderError, match=r"model\.npz: .* too few for the model"):
        load_toolkit(toolkit, tmp_path)


def test_a_checkpoint_whose_heads_do_not_divide_its_width_is_refused(tmp_path):
    write_model(tmp_path, {"transformer-heads": 3})
    write_words(tmp_path)
    with pytest.raises(FolderError, match=r"d_model \(8\) must be divisible by num_heads \(3\)") as caught:
        load_toolkit(toolkit_of(tmp_path), tmp_path)
    assert caught.value.message.startswith(f"{tmp_path}: ")


@pytest.mark.parametrize("name", ["joeynmt", "fairseq", "opennmt", "sockeye", "comet"])
def test_a_pickle_of_a_toolkit_is_not_read_unless_it_is_trusted(name, monkeypatch):
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a child was started"))
    folder = next(path for path in sorted((FIXTURES / name).iterdir()) if toolkit_of(path))
    with pytest.raises(FolderError, match="is a pickle, which can run code"):
        load_toolkit(toolkit_of(folder), folder)
