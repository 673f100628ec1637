"""What tests of the book share: its extensions as modules, and the book as `make book-pages` builds it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs/book"))


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    """The folder of a book whose cells were not executed."""
    pytest.importorskip("sphinx", reason="the book needs `pip install 'regard[book]'`")
    folder = tmp_path_factory.mktemp("book")
    command = [sys.executable, "-m", "sphinx", "--quiet", "-D", "nb_execution_mode=off", "-c", "docs", "."]
    subprocess.run([*command, str(folder)], cwd=ROOT, check=True, capture_output=True)
    return folder / "docs"
