"""Results go to stdout, all else to stderr; no text is cut or moves the cursor."""

from regard import console
from regard.console import streams


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


def test_a_terminal_without_unicode_gets_ascii(plain, capsys, monkeypatch):
    monkeypatch.setattr(type(streams.stdout()), "encoding", "ascii")
    console.plot("loss", {"train": [(1, 3.0), (9, 1.0)]})
    console.alignment(["a"], ["b"], [[1.0]])
    shown = capsys.readouterr().out.split("\n", 1)[1]
    assert "##" in shown
    assert "*" in shown
    assert shown.isascii()
