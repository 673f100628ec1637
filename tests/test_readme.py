"""Every command and every line of Python in README.md runs as it is printed, in order, in a new folder.

Trainings are cut to two updates; the data sets are those of REGARD_DATA. `make test` is this run itself.
"""

import re
import shlex
import signal
from pathlib import Path

import pytest

from regard.data.catalogue import check
from tests.page_blocks import regard_command, run, run_python, run_shell, write_corpora
from tests.warm_process import start_python

ROOT = Path(__file__).parent.parent
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files that README calls the user's own."""
    path = tmp_path_factory.mktemp("readme")
    write_corpora(path)
    return path


def marks_of(block):
    """The block that trains models of three data sets takes longest, and goes nightly."""
    return [pytest.mark.nightly] if "regard data get" in block else []


@pytest.mark.parametrize(
    ("language", "block"),
    [pytest.param(*each, id=each[1].split("\n")[0][:40], marks=marks_of(each[1])) for each in BLOCKS],
)
def test_a_block_of_the_readme_runs_as_printed(language, block, folder):
    if language == "python":
        _python(block, folder)
    else:
        for line in filter(None, map(str.strip, block.splitlines())):
            _shell(line, folder)


def _python(block, folder):
    missing = [name for name in re.findall(r'model="(runs/[^"]+)"', block) if not (folder / name).is_dir()]
    if missing:
        pytest.skip(f"{', '.join(missing)}: the data sets are not here")
    run_python(block, folder)


def _shell(line, folder):
    words = shlex.split(line, comments=True)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text("utf-8"), re.M)
    elif words[:2] == [".", ".venv/bin/activate"]:
        assert "BIN := .venv/bin" in (ROOT / "Makefile").read_text("utf-8")
    elif words[:3] == ["regard", "data", "get"]:
        if any(found.state != "ok" for found in check(words[3])):
            pytest.skip(f"{words[3]} is not here")
        run([*regard_command(), *words[1:]], folder)
    elif words[:2] == ["regard", "look"] and not {"--html", "--text"} & set(words):
        _served(["-m", *words, "--no-browser"], folder)
    elif words[:2] == ["regard", "serve"]:
        _served(["-m", *words, "--port", "0"], folder)
    else:
        run_shell(line, folder)


def _served(command, folder):
    """It says where its page is; then it is ended."""
    process = start_python(command, folder)
    reported = ""
    for shown in process.stderr:
        reported += shown.decode()
        if "http://127.0.0.1" in reported:
            break
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert "http://127.0.0.1" in reported
