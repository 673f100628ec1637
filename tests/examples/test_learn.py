"""Each page of the tutorial runs as it stands: every cell works, but those that are shown to fail."""

import re
from pathlib import Path

import pytest

from tests.warm_process import run_python

LEARN = Path(__file__).parents[2] / "docs" / "learn"
RUNNER = Path(__file__).with_name("run_page.py")
PAGES = sorted(LEARN.glob("[0-9]*.md"))
LONG = {  # pages that train for more than some seconds; `make book` runs them, too
    "05-reverse",
    "06-dates-and-alignment",
    "07-why-attention-won",
    "08-translation",
    "11-language-model",
    "12-masked-words",
    "13-graphs-and-images",
    "14-what-attention-tells",
}


def marks(page):
    return [pytest.mark.nightly] if page.stem in LONG else []


@pytest.mark.parametrize("page", [pytest.param(page, marks=marks(page), id=page.stem) for page in PAGES])
def test_every_cell_of_the_page_runs(page, tmp_path):
    run = run_python([RUNNER, page], tmp_path, timeout=600)
    assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_an_exercise_with_a_hidden_answer_and_a_number_to_beat(page):
    text = page.read_text("utf-8")
    assert re.search(r"^## Exercise$.*^:tags: \[hide-cell\]$", text, re.M | re.S)
    assert "**A number to beat:**" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_fits_a_narrow_page(page):
    cells = re.findall(r"^```\{code-cell\}.*?^```$", page.read_text("utf-8"), re.M | re.S)
    assert [line for cell in cells for line in cell.splitlines() if len(line) > 92] == []
