"""The model in the box: small, whole, with its card; and an answer where there is none."""

import pytest

from regard.errors import FolderError
from regard.verbs import box
from regard.verbs.box import box_model
from regard.verbs.translate import translate
from regard.weights.folder import verify_folder

MOST = 16_000_000  # bytes


def test_the_box_holds_a_small_whole_model_that_says_where_it_comes_from():
    path = box_model()
    verify_folder(path)
    assert sum(file.stat().st_size for file in path.iterdir()) <= MOST
    card = (path / "README.md").read_text("utf-8")
    assert "Tatoeba" in card
    assert "CC BY 2.0" in card
    assert "BLEU" in card
    assert "Bahnhof" in translate("Where is the station?")


def test_an_installation_without_a_box_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(box.resources, "files", lambda package: tmp_path)
    with pytest.raises(FolderError) as caught:
        translate("Hello.")
    assert "--model" in caught.value.hint
