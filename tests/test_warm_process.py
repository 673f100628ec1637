"""A process with PyTorch imported already runs like one that has just started."""

import os
import signal
import subprocess
import sys

import pytest

from tests.warm_process import run_python, run_together, start_python

SHOWN = """
import atexit, os, pathlib, sys
atexit.register(print, "at the end")
beside = sys.path[0] == os.path.dirname(__file__)
print(__name__, sys.argv[1:], pathlib.Path.cwd().name, os.environ.get("WARM"), beside)
print("to stderr", file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SHOWN)
    return path


def test_it_is_the_main_module_with_its_arguments_folder_and_environment(script, tmp_path):
    environment = {**os.environ, "WARM": "yes"}
    (tmp_path / "folder").mkdir()
    done = run_python([script, "3", "ä"], tmp_path / "folder", environment)
    assert done.returncode == 3
    assert done.stdout == "__main__ ['3', 'ä'] folder yes True\nat the end\n"
    assert done.stderr == "to stderr\n"
    fresh = subprocess.run(
        [sys.executable, script, "3", "ä"],
        cwd=tmp_path / "folder",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (fresh.returncode, fresh.stdout, fresh.stderr) == (done.returncode, done.stdout, done.stderr)
    assert "WARM" not in os.environ


def test_one_leaves_nothing_to_the_next(tmp_path):
    script = tmp_path / "registers.py"
    script.write_text("from regard.training import register_loss\nregister_loss('own')(lambda a, b: a)\n")
    for _ in range(2):
        done = run_python([script])
        assert done.returncode == 0, done.stderr


def test_a_module_is_run_and_its_error_reported():
    done = run_python(["-m", "regard", "translate", "a", "--model", "nowhere"])
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stdout == ""


def test_a_program_is_run_with_its_arguments_and_its_error_reported(tmp_path):
    program = "import os, sys\nprint(__name__, sys.argv, os.getcwd() in sys.path or '' in sys.path)\n1 / 0"
    done = run_python(["-c", program, "a"], tmp_path)
    assert done.returncode == 1
    assert done.stdout == "__main__ ['-c', 'a'] True\n"
    assert "ZeroDivisionError" in done.stderr


def test_several_run_at_once(tmp_path):
    meet = tmp_path / "meet.py"
    meet.write_text(
        "import pathlib, sys, time\n"
        "mine, other = map(pathlib.Path, sys.argv[1:])\n"
        "mine.touch()\n"
        "while not other.exists(): time.sleep(0.01)\n"
    )
    one, other = tmp_path / "one", tmp_path / "other"
    found = run_together([meet, one, other], [meet, other, one], timeout=30)
    assert [done.returncode for done in found] == [0, 0]


def test_one_that_lasts_too_long_is_ended(tmp_path):
    script = tmp_path / "sleeps.py"
    script.write_text("import time\nprint('begun', flush=True)\ntime.sleep(99)\n")
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        run_python([script], timeout=1)
    assert caught.value.stdout == "begun\n"


ECHO = """
import sys
for line in sys.stdin:
    print(line.upper(), end="", flush=True)
print("at the end", file=sys.stderr)
sys.exit(4)
"""


def test_one_that_is_talked_to_answers_before_its_input_has_ended(tmp_path):
    (tmp_path / "echo.py").write_text(ECHO)
    process = start_python([tmp_path / "echo.py"])
    process.stdin.write("ä\n".encode())
    process.stdin.flush()
    assert process.stdout.readline() == "Ä\n".encode()
    assert process.communicate(b"b\n", timeout=60) == (b"B\n", b"at the end\n")
    assert process.returncode == 4


def test_one_that_is_talked_to_hears_signals(tmp_path):
    (tmp_path / "echo.py").write_text(ECHO)
    process = start_python([tmp_path / "echo.py"])
    process.stdin.write(b"a\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"A\n"
    process.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in process.communicate(timeout=60)[1]
    assert process.returncode not in (0, 4)
