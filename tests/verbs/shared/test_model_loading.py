"""A folder of another toolkit is refused with the command that converts it, by every verb alike."""

import threading

import pytest
import torch

from regard.errors import FolderError
from regard.training.threads import threads
from regard.verbs.shared import model_loading
from regard.verbs.shared.model_loading import load_named_model


@pytest.mark.parametrize(
    ("files", "title"),
    [
        (("model.npz", "decoder.yml"), "Marian"),
        (("config", "params.best", "vocab.src.0.json"), "Sockeye"),
        (("model.pt", "dict.de.txt"), "fairseq"),
    ],
)
def test_a_checkpoint_of_a_toolkit_leads_to_convert(tmp_path, files, title):
    pytest.importorskip("yaml")
    folder = tmp_path / "a model"
    folder.mkdir()
    for name in files:
        (folder / name).touch()
    with pytest.raises(FolderError, match=f"is a checkpoint of {title}") as caught:
        load_named_model(folder, torch.device("cpu"))
    assert caught.value.hint == f"convert it first: regard convert '{folder}' --out DIR"


def test_any_other_folder_has_no_manifest(tmp_path):
    (tmp_path / "epoch=3-step=100.ckpt").touch()
    with pytest.raises(FolderError, match=r"has no MANIFEST\.json"):
        load_named_model(tmp_path, torch.device("cpu"))


@pytest.mark.parametrize("others", [0, 1])
def test_one_thread_loads_unless_another_one_of_the_program_would_keep_that_number(monkeypatch, others):
    numbers = []

    def seen(model):
        numbers.append(torch.get_num_threads())
        raise FolderError("seen", "that is enough")

    monkeypatch.setattr(model_loading, "model_path", seen)
    monkeypatch.setattr(threading, "active_count", lambda: 1 + others)
    with threads(2):
        with pytest.raises(FolderError, match="seen"):
            load_named_model("model", torch.device("cpu"))
        assert numbers == [2 if others else 1]
        assert torch.get_num_threads() == 2
