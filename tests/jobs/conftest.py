"""Jobs that write each line in capitals, on this disk and in a store of objects."""

import secrets

import fsspec
import pytest

from regard.jobs.inputs import find_inputs
from regard.jobs.plan import Plan
from regard.jobs.storage import Storage

LINES = [f"line {number} " + "x" * (number % 17) for number in range(200)]


@pytest.fixture
def inputs(tmp_path):
    """Two files of lines; their pattern."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("".join(f"{line}\n" for line in LINES[:150]))
    (folder / "b.txt").write_text("\n".join(LINES[150:]))
    return f"{folder}/*"


@pytest.fixture(params=["disk", "store"])
def storage(request, tmp_path):
    """An output folder."""
    if request.param == "disk":
        return Storage(str(tmp_path / "out"))
    name = f"bucket-{secrets.token_hex(4)}"
    fsspec.filesystem("memory").mkdir(f"/{name}")
    return Storage(f"memory://{name}/out")


@pytest.fixture
def planned(inputs):
    """Makes plans of the inputs."""

    def made(**changes):
        settings = {
            "command": "capitals",
            "version": "1",
            "model": "hash",
            "settings": {},
            "format": "text",
            "inputs": find_inputs([inputs]),
            "part_bytes": 300,
        }
        return Plan(**{**settings, **changes})

    return made
