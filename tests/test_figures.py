"""Each measured figure of a page is that of a file of results, of the code, or of output that tests hold."""

import pytest

from tools.figures import FOLDER, ROOT, loose, page_of, pages

HELD = [
    "README.md",
    "docs/distributed.md",
    "docs/do/evaluate-and-compare.md",
    "docs/generation.md",
    "docs/leaving-and-arriving.md",
    "docs/look.md",
    "docs/new.md",
    "docs/performance.md",
    "docs/pretrained.md",
    "docs/reference/errors.md",
    "docs/reliability.md",
    "docs/serving.md",
    "docs/training.md",
]


@pytest.mark.parametrize("name", HELD)
def test_each_figure_of_a_page_is_held(name):
    """`tools/figures.py` writes figures that have changed; docs/figures/ says where new ones come from."""
    assert not loose(ROOT / name)


def test_each_file_of_figures_is_of_a_page():
    assert len(pages()) == len(list(FOLDER.rglob("*.toml")))


def test_each_given_figure_has_a_reason():
    for path in pages():
        assert all(reason.strip() for reason in page_of(path).given.values()), path
