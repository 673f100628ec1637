"""The terminal: results and notes keep apart, plain lines where nobody looks, colours where somebody does."""

import re
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from regard import console

ESCAPE = "\x1b["


@pytest.fixture
def plain(monkeypatch):
    """Nobody looks: output goes into files."""
    use(monkeypatch)
    yield
    forget()


@pytest.fixture
def terminal(monkeypatch):
    """Somebody looks, at 80 columns of every colour."""
    use(monkeypatch, FORCE_COLOR="1", TERM="xterm-256color", COLORTERM="truecolor", COLUMNS="80", LINES="24")
    yield
    forget()


@pytest.fixture
def colourless(monkeypatch):
    """Somebody looks who wants no colour."""
    use(monkeypatch, FORCE_COLOR="1", TERM="xterm-256color", COLUMNS="80", NO_COLOR="1")
    yield
    forget()


def use(monkeypatch, **environment):
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS", "LINES", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    forget()


def forget():
    console._out.cache_clear()
    console._err.cache_clear()


@dataclass(frozen=True)
class Score:
    name: str
    value: float
    low: float | None = None
    high: float | None = None
    signature: str = "nrefs:1"


def uncoloured(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


# Words and tables


def test_results_go_to_stdout_and_all_else_to_stderr(plain, capsys):
    console.say("result")
    console.note("note [b]not markup[/b] :smile:")
    console.warn("careful")
    out, err = capsys.readouterr()
    assert out == "result\n"
    assert err == "note [b]not markup[/b] :smile:\nwarning: careful\n"


def test_a_long_line_is_never_wrapped_or_cut_off_a_terminal(plain, capsys):
    console.note("x" * 5000)
    console.table("", ["name"], [["y" * 5000]])
    out, err = capsys.readouterr()
    assert err == "x" * 5000 + "\n"
    assert out.splitlines() == ["name", "y" * 5000]


def test_no_text_moves_the_cursor(terminal, capsys):
    console.note("evil\x1b[2Jtext\r\n")
    console.table("", ["a"], [["\x1b]0;title\x07"]])
    out, err = capsys.readouterr()
    assert "\x1b[2J" not in err
    assert "\x1b]0" not in out
    assert err.count("\n") == 1


def test_a_table_off_a_terminal_has_one_line_a_row_and_numbers_to_the_right(plain, capsys):
    console.table("sets", ["name", "bytes"], [["multi[30]k", "1,234"], ["日本", "7"]])
    assert capsys.readouterr().out.splitlines() == [
        "sets",
        "name        bytes",
        "multi[30]k  1,234",
        "日本            7",
    ]


def test_an_empty_table_has_its_heads(plain, capsys):
    console.table("", ["name", "bytes"], [])
    assert capsys.readouterr().out == "name  bytes\n"


def test_a_table_on_a_terminal_holds_all_its_words(terminal, capsys):
    console.table("sets", ["name", "what"], [["multi[30]k", " ".join(f"word{i}" for i in range(40))]])
    shown = uncoloured(capsys.readouterr().out)
    assert "multi[30]k" in shown
    assert "word39" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_scores_are_shown_with_interval_and_signature(plain, capsys):
    console.scores("test", [Score("BLEU", 39.519, 38.1, 40.94), Score("exact match", 98.7)])
    assert capsys.readouterr().out.splitlines() == [
        "test",
        "BLEU 39.52 (38.10 to 40.94)  nrefs:1",
        "exact match 98.7 %  nrefs:1",
    ]


@pytest.mark.parametrize(("value", "text"), [(100.0, "100.0 %"), (99.99, "99.9 %"), (98.7, "98.7 %")])
def test_a_share_is_never_rounded_up_to_what_was_not_reached(value, text):
    assert console.score_text(Score("exact match", value)) == text


# Progress


def test_a_confusion_off_a_terminal_has_a_row_and_a_column_for_each_class(plain, capsys):
    console.print_confusion(["no", "yes"], [[6, 2], [1, 11]])
    *shown, accuracy = capsys.readouterr().out.splitlines()[2:]
    assert shown[1].endswith("  75.0"), "numbers are set to the right, though one corner is empty"
    assert [line.split() for line in shown] == [
        ["no", "yes", "recall"],
        ["no", "6", "2", "75.0"],
        ["yes", "1", "11", "91.7"],
        ["precision", "85.7", "84.6"],
    ]
    assert accuracy == "accuracy 85.0: 17 of 20; all values in percent"


def test_a_class_that_is_never_predicted_nor_true_has_no_row_and_is_named(plain, capsys):
    console.print_confusion(["a", "b", "c", "d"], [[3, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    shown = capsys.readouterr().out.splitlines()[2:]
    assert [line.split() for line in shown[:4]] == [
        ["a", "c", "recall"],
        ["a", "3", "1", "75.0"],
        ["c", "0", "0", "0.0"],
        ["precision", "100.0", "0.0"],
    ]
    assert shown[5] == "neither occur nor are predicted: b, d"


def test_a_confusion_of_one_class_is_shown_on_the_narrowest_terminal(terminal, capsys):
    console.print_confusion(["a" * 100, "b"], [[3, 0], [0, 0]])
    assert "accuracy 100.0: 3 of 3" in uncoloured(capsys.readouterr().out)


def test_a_confusion_matrix_too_wide_for_the_terminal_names_frequent_errors(terminal, capsys):
    count = 30
    table = [[5 if i == j else 2 * (j == i + 1) for j in range(count)] for i in range(count)]
    console.print_confusion([f"class {i}" for i in range(count)], table)
    shown = uncoloured(capsys.readouterr().out).splitlines()
    assert all(len(line) <= 80 for line in shown)
    [line] = [line for line in shown if line.strip().startswith("class 7 ")]
    assert line.split() == ["class", "7", "7", "71.4", "71.4", "class", "8", "(2)"]
    assert shown[-1].startswith("accuracy 72.1: 150 of 208")
    [last] = [line for line in shown if line.strip().startswith("class 29 ")]
    assert last.split() == ["class", "29", "5", "71.4", "100.0"]


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
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: now[0]))
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
    monkeypatch.setattr(console, "time", SimpleNamespace(monotonic=lambda: next(clock)))
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


# Plots


def test_a_falling_curve_falls(plain, capsys):
    console.plot("loss", {"train": [(step, 10.0 - step) for step in range(10)]}, height=5)
    head, *rows, foot = capsys.readouterr().out.splitlines()
    assert head == "loss   · train"
    assert rows[0].startswith("10 |⠉")
    assert rows[-1].startswith(" 1 |")
    starts = [len(row) - len(row.split("|")[1].lstrip()) for row in rows]
    assert starts == sorted(starts)
    assert foot.split() == ["step", "0", "9"]


def test_on_a_logarithmic_axis_an_exponential_is_a_straight_line(plain, capsys):
    powers = [(step, 2.0 ** (step / 16)) for step in range(0, 33, 4)]
    console.plot("", {"y": powers}, log=True)
    on_log = capsys.readouterr().out.splitlines()[1:-2]
    console.plot("", {"y": [(step, step / 8) for step, _ in powers]})
    straight = capsys.readouterr().out.splitlines()[1:-2]
    assert [row.split("|")[1] for row in on_log] == [row.split("|")[1] for row in straight]


def test_series_differ_without_colour(plain, capsys):
    console.plot("scores", {"chrf": [(1, 10.0), (2, 20.0)], "bleu": [(1, 1.0), (2, 15.0)]})
    shown = capsys.readouterr().out
    assert "o bleu" in shown
    assert len(re.findall("o(?=[⠀-⣿ ]|$)", shown.split("\n", 1)[1], re.MULTILINE)) == 2


@pytest.mark.parametrize("points", [[(5, 1.5)], [(1, 0.0), (2, 0.0)], [(1, 3.0), (1, 3.0)]])
def test_one_value_can_be_plotted(plain, capsys, points):
    console.plot("loss", {"train": points, "none": []}, log=True)
    shown = capsys.readouterr().out
    assert "none" not in shown
    assert re.search("[⠁-⣿]", shown)


def test_without_values_nothing_is_plotted(plain, capsys):
    console.plot("loss", {"train": []})
    assert capsys.readouterr().out == ""


def test_a_plot_on_a_terminal_is_coloured_and_fits(terminal, capsys):
    console.plot("loss", {"train": [(1, 3.0), (9, 1.0)], "validation": [(1, 4.0), (9, 2.0)]})
    out = capsys.readouterr().out
    assert ESCAPE in out
    assert max(map(len, uncoloured(out).splitlines())) <= 80


# Alignments

SOURCE, TARGET = ["▁a", "b", "c"], ["X", "YY"]
WEIGHTS = [[1.0, 0.0, 0.0], [0.01, 0.19, 0.8]]


def test_an_alignment_off_a_terminal_is_shaded(plain, capsys):
    console.alignment(SOURCE, TARGET, WEIGHTS)
    assert capsys.readouterr().out.splitlines() == [
        "   ▁",
        "   a b c",
        " X ██",
        "YY   ░░██",
    ]


def test_an_alignment_on_a_terminal_is_coloured_by_weight(terminal, capsys):
    console.alignment(SOURCE, TARGET, WEIGHTS)
    out = capsys.readouterr().out
    assert "48;2;255;140;0" in out  # all of it
    assert "48;2;" in out.splitlines()[3]
    assert "█" not in out


def test_an_alignment_without_colours_is_shaded_on_a_terminal(colourless, capsys):
    console.alignment(SOURCE, TARGET, WEIGHTS)
    out = capsys.readouterr().out
    assert "█" in out
    assert "48;" not in out


def test_a_wide_alignment_is_continued_below(terminal, capsys):
    source = [chr(ord("a") + i % 26) for i in range(60)]
    console.alignment(source, ["X"], [[1 / 60] * 60])
    lines = uncoloured(capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert "".join(lines[0::2]).replace(" ", "") == "".join(source)


def test_an_empty_alignment_is_nothing(plain, capsys):
    console.alignment([], [], [])
    assert capsys.readouterr().out == ""


def test_a_terminal_without_unicode_gets_ascii(plain, capsys, monkeypatch):
    monkeypatch.setattr(type(console._out()), "encoding", "ascii")
    console.plot("loss", {"train": [(1, 3.0), (9, 1.0)]})
    console.alignment(["a"], ["b"], [[1.0]])
    shown = capsys.readouterr().out.split("\n", 1)[1]
    assert "##" in shown
    assert "*" in shown
    assert shown.isascii()
