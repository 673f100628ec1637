"""A recording holds what a command prints, and when; an unknown control sequence is an error."""

import pytest

from tools.terminal_recording import COLUMNS, Recording, folded, html_of, record, running, screen_lines

SLOW = """python -c 'import sys, time
print(sys.stdout.isatty(), flush=True)
time.sleep(0.3)
print(chr(27) + "[31mred" + chr(27) + "[0m")'"""


def test_a_command_prints_to_a_terminal_and_each_line_has_its_time(tmp_path):
    recording = record(SLOW, tmp_path)
    assert recording.lines() == ["True", "\x1b[31mred\x1b[0m"]
    assert recording.lines(recording.seconds - 0.2) == ["True"]
    assert recording.lines(0.0) == []


def test_a_command_that_fails_is_no_recording(tmp_path):
    with pytest.raises(RuntimeError, match=r"exit code 3\nbad"):
        record("""python -c 'print("bad"); raise SystemExit(3)'""", tmp_path)


def test_a_command_runs_until_the_recording_is_left(tmp_path):
    serving = """python -c 'import time
try:
    print("ready", flush=True); time.sleep(60)
except KeyboardInterrupt:
    open("ended", "w").close()'"""
    with running(serving, tmp_path, "ready") as recording:
        assert recording.lines() == ["ready"]
        assert not (tmp_path / "ended").exists()
    assert (tmp_path / "ended").exists()


def test_a_command_that_ends_before_it_is_ready_is_named(tmp_path):
    with pytest.raises(RuntimeError, match="ended without 'ready'"), running("echo no", tmp_path, "ready"):
        pass


def test_a_progress_line_is_shown_as_it_was_last_printed():
    erased = "\r\x1b[2K"
    assert screen_lines(f"\x1b[?25la\r\n{erased}10 %{erased}90 %\r\nb\r\n\x1b[?25h") == ["a", "90 %", "b"]


@pytest.mark.parametrize("cut", ["\r", "\x1b", "\x1b[", "\x1b[3"])
def test_a_control_sequence_that_is_not_complete_yet_is_not_shown(cut):
    assert screen_lines(f"a{cut}") == ["a"]


@pytest.mark.parametrize("unknown", ["\x1b[1A", "\x1b]0;title\x07", "10 %\r90 %", "\x08"])
def test_an_unknown_control_sequence_is_refused(unknown):
    with pytest.raises(ValueError, match="no such control sequence"):
        screen_lines(f"a{unknown}b\r\n")


def test_bytes_that_are_cut_inside_a_character_are_not_shown():
    assert Recording("", [(0.0, "aü".encode()[:-1])]).lines() == ["a"]


def test_a_line_wider_than_the_terminal_continues_in_the_next_row():
    rows = folded(["x" * COLUMNS + "yz", "", "\x1b[1mbold\x1b[0m"])
    assert [row.plain for row in rows] == ["x" * COLUMNS, "yz", "", "bold"]


def test_text_is_text_in_html_and_keeps_its_colour():
    html = html_of(folded(["<b>", "1 \x1b[101m  \x1b[0m  "]))
    assert html.startswith("&lt;b&gt;\n1 <span")
    assert 'background-color: #ff6c5c">  </span>' in html
