"""`regard learn` writes the tutorial as notebooks that Jupyter's own reader accepts."""

import re
import sys

import nbformat
import pytest

import regard
from regard.errors import FolderError, MissingExtra
from regard.verbs.learn import tutorial_pages


def test_each_page_is_a_valid_notebook_with_its_cells(tmp_path):
    found = regard.learn(out=tmp_path / "learn")
    assert [path.stem for path in found.written] == [page.stem for page in tutorial_pages()]
    assert not found.kept
    for page, path in zip(tutorial_pages(), found.written, strict=True):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        assert len(code) == page.read_text("utf-8").count("```{code-cell}")
        answers = [cell for cell in code if "hide-cell" in cell.metadata.get("tags", ())]
        assert answers
        hidden = {"source_hidden": True, "outputs_hidden": True}
        assert all(cell.metadata["jupyter"] == hidden for cell in answers)


def test_links_lead_to_notebooks_of_the_folder(tmp_path):
    found = regard.learn(out=tmp_path)
    for path in found.written:
        for cell in nbformat.read(path, as_version=4).cells:
            if cell.cell_type == "markdown":
                for link in re.findall(r"\]\(([^)]+)\)", cell.source):
                    assert link.startswith("https://") or (tmp_path / link).exists(), (path.name, link)


def test_a_notebook_that_exists_is_kept(tmp_path):
    mine = tmp_path / f"{tutorial_pages()[0].stem}.ipynb"
    mine.write_text("my work", "utf-8")
    found = regard.learn(out=tmp_path)
    assert found.kept == (mine,)
    assert mine.read_text("utf-8") == "my work"
    assert len(found.written) == len(tutorial_pages()) - 1


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(FolderError, match=r"file: notebooks cannot be written"):
        regard.learn(out=tmp_path / "file")


def test_without_jupytext_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jupytext", None)
    with pytest.raises(MissingExtra) as caught:
        regard.learn(out=tmp_path)
    assert "regard[learn]" in caught.value.hint
