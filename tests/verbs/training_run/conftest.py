"""A finished run, trained once."""

import shutil

import pytest

from regard.verbs.train import train
from tests.verbs.test_train import RECIPE


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.toml").write_text(RECIPE)
    train(folder / "small.toml", out=folder / "run")
    return folder / "run"


@pytest.fixture
def run(tmp_path, finished):
    """A copy of a finished run."""
    return shutil.copytree(finished, tmp_path / "run")
