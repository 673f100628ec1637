"""Every failure is reported by one error line, one hint line and the exit code."""

import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import EntryPoint

import click
import pytest

from regard.cli import group, run
from regard.cli.group import Command
from regard.errors import DataError, Interrupted, RunError
from regard.registry import GROUP
from tests.warm_process import run_python


@pytest.fixture
def failing(monkeypatch):
    """Replaces the commands by one, `fail`, that raises an error."""

    def given(error: BaseException) -> list[str]:
        @click.command("fail", cls=Command)
        def fail() -> None:
            raise error

        monkeypatch.setattr(group, "SHORT_HELP", {"fail": "Fail."})
        monkeypatch.setattr(group.AllVerbs, "get_command", lambda self, ctx, cmd_name: fail)
        return ["fail"]

    return given


@pytest.mark.parametrize(
    ("error", "code", "output"),
    [
        (DataError("no such file: x", "look again"), 2, "error: no such file: x\nhint: look again\n"),
        (RunError("loss is not finite", "lower it"), 1, "error: loss is not finite\nhint: lower it\n"),
        (DataError("without a hint"), 2, "error: without a hint\nhint: see `regard --help`\n"),
        (Interrupted(signal.SIGTERM, "stopped", "go on"), 143, "error: stopped\nhint: go on\n"),
        (
            KeyboardInterrupt(),
            130,
            "error: interrupted\nhint: the same command starts it again\n",
        ),
        (
            ZeroDivisionError("by zero"),
            1,
            "error: ZeroDivisionError: by zero\nhint: the same command with --debug shows the traceback\n",
        ),
        (
            PermissionError(13, "Permission denied", "/shut/file"),
            2,
            "error: /shut/file: Permission denied\nhint: ls -ld /shut/file shows its owner and mode\n",
        ),
        (
            OSError(28, "No space left on device", "/full/disk"),
            1,
            "error: /full/disk: No space left on device\nhint: free some space, or choose another disk\n",
        ),
    ],
)
def test_a_failure_is_one_error_one_hint_and_its_exit_code(capsys, failing, error, code, output):
    assert run(failing(error)) == code
    assert capsys.readouterr().err == output


def test_a_message_with_line_feeds_and_control_characters_is_printed_in_one_line(capsys, failing):
    assert run(failing(DataError("one\ntwo\u2028three\x1b[2Jfour\r", "a\nb"))) == 2
    assert capsys.readouterr().err == "error: one two three [2Jfour \nhint: a b\n"


def test_a_lack_of_memory_has_a_hint_to_use_less(capsys, failing):
    assert (
        run(failing(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 1 byte")))
        == 1
    )
    assert "--batch-tokens" in capsys.readouterr().err.splitlines()[1]


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback_and_keeps_the_exit_code(capsys, failing, place):
    arguments = failing(DataError("seen", "a hint"))
    assert run(["--debug", *arguments] if place == "before" else [*arguments, "--debug"]) == 2
    output = capsys.readouterr().err
    assert "Traceback" in output
    assert output.endswith("error: seen\nhint: a hint\n")


def test_a_hint_does_not_say_how_to_see_the_traceback_that_is_shown(capsys, failing):
    assert run(["--debug", *failing(ZeroDivisionError("by zero"))]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert "hint: the traceback above" in shown
    assert "with --debug" not in shown


def test_a_closed_pipe_prints_no_error():
    program = "import sys; from regard.cli import main\nsys.argv = ['regard', 'recipes']\nmain()"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141


SIGHUP = getattr(signal, "SIGHUP", None)  # Windows has none
WITH_SIGHUP = pytest.mark.skipif(SIGHUP is None, reason="no such signal")
SLEEPER = """
import sys, time
from regard.cli import group, main
import click
@click.command("fail", cls=group.Command)
def sleep():
    print("asleep", flush=True)
    time.sleep(60)
group.SHORT_HELP = {"fail": ""}
group.AllVerbs.get_command = lambda self, ctx, cmd_name: sleep
sys.argv = ["regard", "fail"]
main()
"""


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGTERM, 143, "stopped by SIGTERM"),
        (signal.SIGINT, 130, "interrupted"),
        pytest.param(SIGHUP, 129, "stopped by SIGHUP", marks=WITH_SIGHUP),
    ],
)
def test_a_signal_stops_it_with_its_exit_code_and_without_a_traceback(number, code, message):
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a shell's background job, such as CI may be, ignores them, and so would its children
        preexec_fn=lambda: [signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, SIGHUP) if each],
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asleep\n"
    began = time.monotonic()
    process.send_signal(number)
    _, output = process.communicate(timeout=30)
    assert time.monotonic() - began < 20
    assert process.returncode == code
    assert output.splitlines() == [f"error: {message}", "hint: the same command starts it again"]
    assert output.splitlines()[1].startswith("hint: ")
    assert len(output.splitlines()) == 2


INTERRUPTED = """
import os, signal, sys
from regard.cli import main
from regard.decoding.step import ModelStepper
signal.signal(signal.SIGINT, signal.default_int_handler)
steps = 0
def counted(usual):
    def step(*arguments, **named):
        global steps
        steps += 1
        if steps == 20:
            print("interrupted at 20", flush=True)
            os.kill(os.getpid(), signal.SIGINT)
        elif steps > 20:
            print("continued", flush=True)
        return usual(*arguments, **named)
    return step
ModelStepper.step = counted(ModelStepper.step)
ModelStepper.top_candidates = counted(ModelStepper.top_candidates)
ModelStepper.run_steps = lambda *given: None
main()
"""


def test_a_translation_that_takes_hours_ends_at_ctrl_c(untrained, tmp_path):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    endless = ["--min-new-tokens", "90000", "--max-new-tokens", "90000", "--workers", "1"]
    arguments = [tmp_path / "interrupted.py", "translate", "1 2 3", "--model", untrained, *endless]
    done = run_python(arguments, timeout=120)
    assert done.stdout == "interrupted at 20\n"
    assert done.returncode == 130
    assert done.stderr.splitlines()[-2:] == ["error: interrupted", "hint: the same command starts it again"]


@WITH_SIGHUP
def test_nohup_is_respected():
    process = subprocess.Popen(
        [sys.executable, "-c", SLEEPER],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(SIGHUP, signal.SIG_IGN),
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "asleep\n"
    process.send_signal(SIGHUP)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=30)[1].splitlines()[0] == "error: stopped by SIGTERM"


def test_an_error_in_an_extension_has_its_place(capsys, failing, tmp_path, monkeypatch):
    (tmp_path / "my_extension.py").write_text("def loss(logits):\n    return 1 / 0\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import my_extension  # pyright: ignore[reportMissingImports]

    try:
        my_extension.loss(None)
    except ZeroDivisionError as error:
        caught = error
    assert run(failing(caught)) == 1
    assert capsys.readouterr().err.startswith("error: ZeroDivisionError: division by zero\n")
    points = [EntryPoint("my", "my_extension", GROUP)]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points)
    try:
        my_extension.loss(None)
    except ZeroDivisionError as error:
        caught = error
    assert run(failing(caught)) == 1
    assert re.search(r"division by zero \(in .*my_extension\.py:2, loss\)", capsys.readouterr().err)
