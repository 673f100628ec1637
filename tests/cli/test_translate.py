"""`regard translate`: a line out for each line in, as soon as it can be."""

import html
import json

import pytest

from regard import console
from regard.cli import run
from regard.cli.translate import _note_demonstration
from regard.errors import UserError
from regard.verbs.translate import translate, translate_file
from tests.warm_process import start_python


def regard(*arguments):
    """`regard` as another process, with pipes."""
    return start_python(["-m", "regard", *arguments])


def test_whoever_writes_a_line_and_waits_gets_its_answer(untrained):
    process = regard("translate", "--model", untrained, "--threads", "1")
    for line in ("1 2 3", "", "4 5"):
        process.stdin.write(f"{line}\n".encode())
        process.stdin.flush()
        assert process.stdout.readline().decode() == translate(line, model=untrained) + "\n"
    rest, reported = process.communicate(b"6\nun\xff\n7\n", timeout=60)
    assert rest.decode() == translate("6", model=untrained) + "\n"
    assert process.returncode == 2
    assert reported.decode().splitlines() == [
        "error: standard input:5: not UTF-8 (byte 0xff at byte 3)",
        "hint: convert the file: iconv -f LATIN1 -t UTF-8",
    ]


def test_a_reader_who_has_enough_ends_it_in_silence(untrained):
    process = regard("translate", "--model", untrained, "--threads", "1", "--beam-size", "1")
    process.stdin.write(b"1 2\n")
    process.stdin.flush()
    assert process.stdout.readline()
    process.stdout.close()
    process.stdin.write(b"3 4\n")
    process.stdin.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(timeout=60) == 141


@pytest.mark.parametrize("text", ["1 2 3", "", "1\n\n2 3"])
def test_a_text_as_argument_is_translated_line_by_line(capsys, untrained, text):
    assert run(["translate", text, "--model", str(untrained)]) == 0
    expected = [translate(line, model=untrained) for line in text.split("\n")]
    assert capsys.readouterr().out.split("\n") == [*expected, ""]


def test_a_file_is_translated_into_another(capsys, untrained, tmp_path):
    (tmp_path / "in").write_text("1 2\n\n3\n")
    options = ["--model", str(untrained), "--input", str(tmp_path / "in")]
    assert run(["translate", *options]) == 0
    printed = capsys.readouterr().out
    assert run(["translate", *options, "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "out").read_text() == printed
    assert printed.count("\n") == 3
    assert run(["translate", *options, "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["translation"] for record in records] == printed.split("\n")[:-1]
    assert run(["translate", *options, "--n-best", "2"]) == 0
    numbers = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert numbers == ["1", "1", "2", "3", "3"]


@pytest.fixture
def seen(monkeypatch):
    """Says who sees what: makes `console` take outputs for terminals."""

    def made(*, out, err):
        monkeypatch.setattr(console, "is_terminal", lambda: out)
        monkeypatch.setattr(console, "notes_to_terminal", lambda: err)
        _note_demonstration.cache_clear()

    yield made
    _note_demonstration.cache_clear()


def test_a_notice_says_once_that_the_included_model_is_a_demonstration(seen, capsys, monkeypatch, untrained):
    seen(out=True, err=True)
    for _ in range(2):
        assert run(["translate", "Hello."]) == 0
    reported = capsys.readouterr().err.splitlines()
    assert len(reported) == 1
    assert "demonstration" in reported[0]
    assert "regard new" in reported[0]
    seen(out=True, err=True)
    assert run(["translate", "1", "--model", str(untrained)]) == 0
    assert run(["translate", "Hello.", "--model", "en-de"]) == 0
    for out, err in ((True, False), (False, True)):
        seen(out=out, err=err)
        assert run(["translate", "Hello."]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("output", "out", "err", "bar"),
    [
        (True, True, True, True),
        (False, False, True, True),
        (False, True, True, False),
        (True, True, False, False),
    ],
)
def test_a_file_has_a_bar_where_it_is_seen_and_disturbs_nothing(
    seen, capsys, monkeypatch, untrained, tmp_path, output, out, err, bar
):
    reported = []

    class Recorder(console.LinesProgress):
        def __init__(self, total):
            super().__init__(total)
            reported.append(total)

        def advance(self, lines):
            reported.append(lines)

    seen(out=out, err=err)
    monkeypatch.setattr(console, "LinesProgress", Recorder)
    (tmp_path / "in").write_bytes(b"1 2\n\n3")
    to_file = ["--output", str(tmp_path / "out")] if output else []
    assert run(["translate", "--model", str(untrained), "--input", str(tmp_path / "in"), *to_file]) == 0
    assert bool(reported) == bar
    if bar:
        assert reported[0] == sum(reported[1:]) == 3
    printed = (tmp_path / "out").read_text() if output else capsys.readouterr().out
    assert printed.splitlines() == [translate(line, model=untrained) for line in ("1 2", "", "3")]


def test_sentences_of_a_text_are_translated_one_by_one_and_lines_stay_lines(capsys, untrained):
    assert run(["translate", "1 2! 3 4?\n5", "--model", str(untrained)]) == 0
    alone = [translate(each, model=untrained) for each in ("1 2!", "3 4?", "5")]
    assert capsys.readouterr().out == f"{alone[0]} {alone[1]}\n{alone[2]}\n"
    assert run(["translate", "1 2! 3 4?", "--split", "off", "--model", str(untrained)]) == 0
    assert capsys.readouterr().out == translate("1 2! 3 4?", split="off", model=untrained) + "\n"
    assert run(["translate", "1", "--split", "on", "--must-contain", "1", "--model", str(untrained)]) == 2
    assert "must_contain = ('1',) and split = 'on'" in capsys.readouterr().err


def test_a_text_and_a_file_at_once_are_refused(capsys, untrained):
    assert run(["translate", "1", "--input", "x", "--model", str(untrained)]) == 2
    assert capsys.readouterr().err.startswith("error: both TEXT and --input are given\nhint: ")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--temperature", "0.7"], ("temperature = 0.7", "sample is not set")),
        (["--sample", "--beam-size", "4"], ("sample = True", "beam_size = 4")),
        (["--beam-groups", "2"], ("beam_groups = 2", "diversity")),
        (["--ban", "1", "--must-contain", "1"], ("must_contain", "ban")),
        (["--boost", "1"], ("boost = '1'", "TEXT=X")),
        (["--must-contain", "x y z"], ("must_contain = 'x y z'", "has no tokens for it")),
    ],
)
def test_controls_that_contradict_are_refused_with_both_names(capsys, untrained, arguments, named):
    assert run(["translate", "1", "--model", str(untrained), *arguments]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert all(name in error for name in named), error
    assert hint.startswith("hint: ")


SUBTITLES = "1\n00:00:01,000 --> 00:00:02,500\n4 5 6\n\n2\n00:00:03,000 --> 00:00:06,000\n1 2 3\n"


def test_subtitles_and_html_keep_everything_but_their_texts(capsys, untrained, tmp_path):
    documents = {"a.srt": SUBTITLES, "a.SRT.gz": SUBTITLES, "a.html": "<h1>4 5 6</h1>\n<p lang=x>1 2 3</p>\n"}
    words = {text: translate(text, model=untrained).strip() for text in ("4 5 6", "1 2 3")}
    for name, content in documents.items():
        (tmp_path / name).write_text(content)
        expected = content
        for text, translation in words.items():
            expected = expected.replace(text, html.escape(translation, quote=False))
        if "srt" in name.lower():
            expected = html.unescape(expected)
        arguments = ["translate", "--model", str(untrained), "--input", str(tmp_path / name)]
        assert run(arguments) == 0
        assert capsys.readouterr().out == expected
        assert run([*arguments, "--output", str(tmp_path / "out")]) == 0
        assert (tmp_path / "out").read_text() == expected
        assert translate_file(tmp_path / name, tmp_path / "out", model=untrained) == expected.count("\n")
        assert (tmp_path / "out").read_text() == expected


@pytest.mark.parametrize("kind", ["srt", "html"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_line_ends_and_a_byte_order_mark_stay_and_nothing_stays_nothing(untrained, tmp_path, kind, mark):
    plain = SUBTITLES if kind == "srt" else "<h1>4 5 6</h1>\n<p>1 2 3</p>"
    outputs = []
    for content in (plain, mark + plain.replace("\n", "\r\n"), mark):
        (tmp_path / "in").write_bytes(content.encode())
        translate_file(tmp_path / "in", tmp_path / "out", model=untrained, file_format=kind)
        outputs.append((tmp_path / "out").read_bytes().decode())
    assert outputs[1:] == [mark + outputs[0].replace("\n", "\r\n"), mark]


def test_subtitles_without_a_cue_are_refused_and_blocks_without_times_are_named(capsys, untrained, tmp_path):
    (tmp_path / "a.srt").write_text("<p>1 2 3</p>\n")
    arguments = ["translate", "--model", str(untrained), "--input", str(tmp_path / "a.srt")]
    assert run(arguments) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert "a.srt: no cue of subtitles is found" in error
    assert "--format lines or html" in hint
    (tmp_path / "a.srt").write_text(SUBTITLES.replace("00:00:03,000 --", "00:00:03,000 "))
    assert run(arguments) == 0
    assert "not translated: line 6" in capsys.readouterr().err


def test_a_warning_has_the_line_of_the_file(capsys, untrained, tmp_path):
    (tmp_path / "a.srt").write_text(SUBTITLES.replace("1 2 3", "1 2 3 " * 2000))
    run(["translate", "--model", str(untrained), "--input", str(tmp_path / "a.srt")])
    assert "line 7 " in capsys.readouterr().err


def test_a_format_overrides_the_name_of_the_file(capsys, untrained, tmp_path):
    (tmp_path / "a.html").write_text("1 2 3\n")
    (tmp_path / "b.txt").write_text("<p>1 2 3</p>\n")
    translation = translate("1 2 3", model=untrained)
    arguments = ["translate", "--model", str(untrained), "--input"]
    assert run([*arguments, str(tmp_path / "a.html"), "--format", "lines"]) == 0
    assert capsys.readouterr() == (f"{translation}\n", "")
    assert run([*arguments, str(tmp_path / "b.txt"), "--format", "html"]) == 0
    assert capsys.readouterr().out == f"<p>{html.escape(translation.strip(), quote=False)}</p>\n"


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("a.csv", "--column NAME translates a column;"),
        ("a.jsonl.gz", "--column NAME translates a column;"),
        ("a.po", "lines of a file, as HTML or as Markdown"),
        ("a.JSON", "lines of a file, as HTML or as Markdown"),
        ("a.ass", "ASS subtitles are not read"),
        ("a.sub", "subtitles are not read"),
    ],
)
def test_other_formats_are_refused_by_name_with_a_way_out(capsys, untrained, tmp_path, name, way_out):
    (tmp_path / name).write_text("1 2 3\n")
    arguments = ["translate", "--model", str(untrained), "--input", str(tmp_path / name)]
    assert run(arguments) == 2
    error = capsys.readouterr().err
    assert way_out in error
    assert "--format lines translates each line" in error
    with pytest.raises(UserError, match=name):
        translate_file(tmp_path / name, tmp_path / "out", model=untrained)


def test_what_lines_alone_have_is_refused_for_documents(capsys, untrained, tmp_path):
    (tmp_path / "a.srt").write_text(SUBTITLES)
    arguments = ["translate", "--model", str(untrained), "--input", str(tmp_path / "a.srt")]
    for option in (["--json"], ["--n-best", "2"]):
        assert run([*arguments, *option]) == 2
        assert f"{option[0]} is for lines" in capsys.readouterr().err
    assert run([*arguments, "--format", "srt", "--shard", "1/1", "--output", str(tmp_path / "out")]) == 2
    assert "--format srt is not for a job" in capsys.readouterr().err
