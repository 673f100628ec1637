"""Each measured figure of a page is that of a file of results, of the code, or of output that tests hold."""

from pathlib import Path

import pytest

from tools.figures import FOLDER, page_of, pages
from tools.measured import loose_figures

ROOT = Path(__file__).parent.parent
HELD = ["docs/distributed.md", "docs/performance.md", "docs/serving.md"]
EXECUTED = {"docs/look.md", "docs/generation.md", "docs/reference/errors.md"}  # by test_docs_outputs.py


@pytest.mark.parametrize("name", HELD)
def test_each_figure_of_a_page_is_held(name):
    """`tools/figures.py` writes figures that have changed; docs/figures/ says where new ones come from."""
    path = ROOT / name
    text = path.read_text("utf-8")
    assert not loose_figures(text, page_of(path).held(text), executed=name in EXECUTED)


def test_each_file_of_figures_is_of_a_page():
    assert len(pages()) == len(list(FOLDER.rglob("*.toml")))


def test_each_given_figure_has_a_reason():
    for path in pages():
        assert all(reason.strip() for reason in page_of(path).given.values()), path
