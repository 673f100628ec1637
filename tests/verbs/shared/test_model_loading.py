"""A folder of another toolkit is refused with the command that converts it, by every verb alike."""

import pytest
import torch

from regard.errors import FolderError
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
