"""The files of a Hugging Face folder: which weights are read, and that a folder is written whole or not."""

import json
import os

import pytest
import torch
from safetensors.torch import save_file

from regard.errors import FolderError
from regard.weights.huggingface_files import (
    is_huggingface,
    read_table,
    read_weights,
    write_plain_folder,
)

WEIGHTS = {"a": torch.arange(3.0), "b": torch.ones(2)}


def index(folder, name, places):
    (folder / f"{name}.index.json").write_text(json.dumps({"weight_map": places}), "utf-8")


def refused(call, message):
    with pytest.raises(FolderError, match=message) as caught:
        call()
    assert caught.value.hint


def test_a_table_is_a_file_of_the_folder(tmp_path):
    refused(lambda: read_table(tmp_path / "config.json"), r"config\.json is missing")
    (tmp_path / "config.json").write_text('{"a": 1}', "utf-8")
    assert read_table(tmp_path / "config.json") == {"a": 1}


@pytest.mark.usefixtures("forked_reader")
def test_weights_are_safetensors_in_one_file_or_several_else_a_pickle_that_is_trusted(tmp_path):
    torch.save(WEIGHTS, tmp_path / "part.bin")
    index(tmp_path, "pytorch_model.bin", {"a": "part.bin", "b": "part.bin"})
    refused(lambda: read_weights(tmp_path), "index.json is a pickle, which can run code")
    assert sorted(read_weights(tmp_path, trust_pickle=True)) == ["a", "b"]
    torch.save({"a": WEIGHTS["a"]}, tmp_path / "pytorch_model.bin")
    refused(lambda: read_weights(tmp_path), r"pytorch_model\.bin is a pickle")
    assert sorted(read_weights(tmp_path, trust_pickle=True)) == ["a"]
    index(tmp_path, "model.safetensors", {"a": "part.bin", "b": "part.bin"})
    for trust in (False, True):  # an index of safetensors names no pickles
        refused(lambda trust=trust: read_weights(tmp_path, trust_pickle=trust), r"part\.bin is a pickle")
    save_file(WEIGHTS, tmp_path / "part.safetensors")
    index(tmp_path, "model.safetensors", dict.fromkeys(WEIGHTS, "part.safetensors"))
    assert sorted(read_weights(tmp_path)) == ["a", "b"]
    save_file({"b": WEIGHTS["b"]}, tmp_path / "model.safetensors")
    assert sorted(read_weights(tmp_path)) == ["b"]


@pytest.mark.parametrize("places", [[], {}, None, "a"])
def test_an_index_has_places(tmp_path, places):
    index(tmp_path, "model.safetensors", places)
    refused(lambda: read_weights(tmp_path), "weight_map is not an object of names")


def test_a_folder_is_written_whole_or_leaves_nothing(tmp_path, monkeypatch):
    files = {"config.json": b"{}", "part/model.safetensors": WEIGHTS}
    write_plain_folder(tmp_path / "model", files)
    assert sorted(os.listdir(tmp_path / "model")) == ["config.json", "part"]
    assert (tmp_path / "model" / "config.json").read_bytes() == b"{}"

    def refuse(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(KeyboardInterrupt):
        write_plain_folder(tmp_path / "other", files)
    assert os.listdir(tmp_path) == ["model"]


def test_a_folder_that_cannot_be_removed_hides_no_error(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", interrupt)
        patched.setattr(os, "unlink", refuse)
        with pytest.raises(KeyboardInterrupt):
            write_plain_folder(tmp_path / "model", {"a": b"x"})


def test_weights_that_are_not_finite_are_not_written(tmp_path):
    with pytest.raises(Exception, match=r"NaN|finite"):
        write_plain_folder(tmp_path / "model", {"model.safetensors": {"a": torch.tensor([torch.nan])}})
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(("before", "theirs"), [(0, False), (2**15, False), (2**16, True)])
def test_a_config_is_ours_if_it_says_so_at_its_beginning(tmp_path, before, theirs):
    assert not is_huggingface(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"a": "x" * before, "format_version": 1}), "utf-8")
    assert is_huggingface(tmp_path) is theirs
    (tmp_path / "MANIFEST.json").touch()
    assert not is_huggingface(tmp_path)
