"""Each measured figure of a page is that of a file of results, of the code, or of output that tests hold."""

import pytest

from benchmarks.common import report
from benchmarks.common.report import filled
from benchmarks.common.results import FOLDER as FOLDER_OF_RESULTS
from tools import proposals
from tools.figures import FOLDER, ROOT, loose, page_of, pages

OTHERS = {  # pages that this test leaves out -> why
    "docs/log.md": "dated history",
    "docs/api.md": "written from docstrings",
    "docs/recipes-by-size.md": "written from experiments.toml, as the last test here holds",
}
FOLDERS = (
    ".",
    "benchmarks",
    "recipes",
    *("docs" + each for each in ("", "/do", "/learn", "/reference", "/reference/api")),
)
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in FOLDERS
    for path in (ROOT / folder).glob("*.md")
    if path.name not in ("CHANGELOG.md", "CODE_OF_CONDUCT.md")
)


@pytest.mark.parametrize("name", [name for name in PAGES if name not in OTHERS])
def test_each_figure_of_a_page_is_held(name):
    """`tools/figures.py` writes figures that have changed; docs/figures/ says where new ones come from."""
    assert not loose(ROOT / name)


def test_each_file_of_figures_is_of_a_page():
    assert len(pages()) == len(list(FOLDER.rglob("*.toml")))


def test_each_given_figure_has_a_reason():
    for path in pages():
        assert all(reason.strip() for reason in page_of(path).given.values()), path


@pytest.mark.parametrize("path", sorted(FOLDER_OF_RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_the_tables_of_benchmarks_are_written_from_their_results(path):
    text = report.PAGE.read_text("utf-8")
    assert path.stem.endswith("-quick") or filled(text, path.stem, report.tables(path)) == text


def test_the_table_of_experiments_is_written_from_them():
    assert proposals.table() in (ROOT / "docs/recipes-by-size.md").read_text("utf-8")
