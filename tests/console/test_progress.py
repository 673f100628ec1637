"""Progress: a bar on a terminal, lines elsewhere; it shows what is done and the time left."""

import re
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from regard import console
from regard.console import progress as progress_file
from tests.console.conftest import uncoloured


def record(step, **others):
    usual = {"kind": "train", "step": step, "epoch": 0, "loss": 3.2141, "learning_rate": 6.1e-4}
    return {**usual, "tokens_per_second": 31_200.4, **others}


def test_off_a_terminal_each_report_is_one_greppable_line(plain, capsys):
    with console.Progress(2000) as progress:
        progress.report(record(1200))
        progress.report({"kind": "validation", "step": 1200, "loss": 2.0, "bleu": 31.2})
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "step 1200  loss 3.214  lr 6.1e-04  31,200 tok/s  eta -:--:--",
        "step 1200  validation  loss 2.000  bleu 31.20",
    ]


def test_a_count_is_shown_as_a_whole_number(plain, capsys):
    with console.Progress(2000) as progress:
        progress.report({"kind": "rollback", "step": 1207, "to": 1200})
    assert capsys.readouterr().err == "step 1207  rollback  to 1,200\n"


def test_the_speed_is_that_of_what_the_task_counts(plain, capsys):
    with console.Progress(2000, unit="images") as progress:
        progress.report(record(1200))
    assert capsys.readouterr().err.splitlines()[0].endswith("31,200 images/s  eta -:--:--")


@dataclass(frozen=True)
class Left:
    seconds: float = 870.0
    whole: bool = True


@dataclass(frozen=True)
class Update:
    step: int
    loss: float = 3.2
    learning_rate: float = 6.1e-4
    targets: int = 100
    seconds: float = 0.1
    is_reported: bool = False
    left: Left = field(default_factory=Left)


def test_the_first_update_is_shown_at_once_and_the_next_after_silence(plain, capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress_file, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with console.Progress(8000, done=5000) as progress:
        for step in range(5001, 5081):
            progress.update(Update(step, left=Left(whole=step > 5010)))
            now[0] += 1.0
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["5001", "5031", "5061"]
    assert lines[0].endswith("1,000 tok/s  eta 0:14:30+"), "validations come on top"
    assert lines[1].endswith("1,000 tok/s  eta 0:14:30")


def test_an_update_that_is_reported_is_shown_once_with_the_time_left(plain, capsys):
    with console.Progress(8000) as progress:
        progress.update(Update(1, is_reported=True))
        progress.report(record(1))
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("31,200 tok/s  eta 0:14:30")


def test_the_bar_of_a_resumed_run_begins_where_it_was(terminal, capsys):
    with console.Progress(2000, done=1500):
        shown = uncoloured(capsys.readouterr().err)
    assert "step 1,500/2,000" in shown


def test_on_a_terminal_there_is_a_bar_and_notes_stand_above_it(terminal, capsys):
    with console.Progress(2000) as progress:
        progress.report(record(500))
        console.note("a note")
        progress.report({"kind": "validation", "step": 500, "loss": 2.0})
        progress.report(record(1000))
    out, err = capsys.readouterr()
    assert out == ""
    assert "━" in err
    shown = uncoloured(err)
    assert "step 1,000/2,000" in shown
    assert "31,200 tok/s" in shown
    assert re.search(r"^a note$", shown.replace("\r", "\n"), re.MULTILINE)
    assert "validation  loss 2.000" in shown


def test_a_failure_inside_leaves_the_terminal_as_it_was(terminal, capsys):
    progress = console.Progress(10)
    with pytest.raises(KeyError), progress:
        progress.report({"kind": "train", "step": 1})
    assert capsys.readouterr().err.rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_a_loss_that_is_no_number_is_shown_as_such(plain, capsys):
    with console.Progress(10) as progress:
        progress.report(record(1, loss=float("nan")))
    assert "loss nan" in capsys.readouterr().err


def test_lines_that_are_done_have_a_bar_on_a_terminal(terminal, capsys, monkeypatch):
    clock = iter([0.0, 0.05, 10.0, 10.01, 20.0])
    monkeypatch.setattr(progress_file, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    with console.LinesProgress(4000) as progress:
        progress.advance(1)  # too soon to be drawn
        progress.advance(999)
        progress.advance(100)
    out, err = capsys.readouterr()
    assert out == ""
    shown = uncoloured(err)
    assert "0/4,000 lines" in shown
    assert "1,000/4,000 lines" in shown
    assert "100.0 lines/s  eta 0:00:30" in shown
    assert "1,100/4,000 lines" in shown, "the end is drawn"
    assert "1/4,000 lines" not in shown.replace("0/4,000", "")


def test_without_a_terminal_line_progress_prints_nothing(plain, capsys):
    with console.LinesProgress(4) as progress:
        progress.advance(4)
    assert capsys.readouterr() == ("", "")


def test_downloads_are_reported_when_they_are_complete(plain, capsys):
    with console.downloads() as progress:
        progress("a/train.gz", 10, 1000)
        progress("a/train.gz", 1000, 1000)
    assert capsys.readouterr().err == "a/train.gz  1,000 bytes\n"


def test_downloads_have_bars_on_a_terminal(terminal, capsys):
    with console.downloads() as progress:
        progress("a/train.gz", 500, 1000)
        progress("a/valid.gz", 5, None)
    shown = uncoloured(capsys.readouterr().err)
    assert "a/train.gz" in shown
    assert "a/valid.gz" in shown
