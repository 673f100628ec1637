"""`regard look`: a page, a file, lines; mistakes are one line and a hint."""

import http.client
import json
import re
import signal

import numpy as np
import pytest

import regard
from regard.cli import run
from regard.errors import UserError
from tests.warm_process import start_python


@pytest.fixture
def reported(capsys):
    """A function that runs a command and returns the error and the hint that it prints."""

    def asked(*arguments: str) -> tuple[str, str]:
        assert run([*arguments]) == 2
        shown = capsys.readouterr().err
        assert "Traceback" not in shown
        error, hint = shown.splitlines()[-2:]
        return error.removeprefix("error: "), hint.removeprefix("hint: ")

    return asked


def test_text_off_a_terminal_is_plain_lines(capsys, untrained):
    assert run(["look", "1 2 3", "--model", str(untrained), "--text"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert re.search(r"^text\t1 2 3$", shown, re.MULTILINE)
    assert re.search(r"^token\t0\t", shown, re.MULTILINE)


def test_files_are_written_and_named(capsys, untrained, tmp_path):
    html, npz = tmp_path / "look.html", tmp_path / "look.npz"
    arguments = ["look", "1 2 3", "--model", str(untrained), "--html", str(html), "--npz", str(npz)]
    assert run(arguments) == 0
    assert capsys.readouterr().out == f"{html}\n{npz}\n"
    assert html.read_text("utf-8").startswith("<!doctype html>")
    with np.load(npz) as arrays:
        assert "alignment" in arrays


def test_a_pair_of_words_ranks_the_heads_that_link_them(capsys, untrained):
    model = ["--model", str(untrained)]
    assert run(["look", "1 2 3", *model, "--target", "3 2", "--pair", "3", "2"]) == 0
    pair = capsys.readouterr().out
    assert run(["look", "1 2 3", *model, "--target", "3 2", "--pair", "3", "2", "--text"]) == 0
    assert (both := capsys.readouterr().out).endswith(pair)
    assert both.startswith("model\t")
    assert run(["look", "1 2 3", *model, "--target", "3 2", "--pair", "3", "2"]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    seen = regard.look("1 2 3", untrained, target="3 2")
    weights = np.asarray(seen.get("attention/decoder.blocks.0.cross_attention"), dtype=float)
    expected = weights[:, 1, 2]
    assert [line[1] for line in lines] == [f"layer 0, head {head}" for head in np.argsort(-expected)]
    assert [float(line[0]) for line in lines] == pytest.approx(sorted(expected, reverse=True), abs=1e-3)


def test_json_is_one_object_and_what_is_forced_is_forced(capsys, untrained):
    assert run(["look", "1 2 3", "--model", str(untrained), "--json", "--target", "3 2"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["summary"]["answer"]["text"] == "3 2"
    assert len(held["steps"]) == 3


def test_mistakes_are_one_line_and_a_hint(reported, untrained, tmp_path):
    model = ["--model", str(untrained)]
    assert "no TEXT" in reported("look", "--text")[0]
    assert "no TEXT" in reported("look", "--target", "1")[0]
    assert "--prefix" in reported("look", "1", "--target", "1", "--prefix", "1")[0]
    assert "empty" in reported("look", "", "--text", *model)[0]
    assert reported("look", "1", "--text", "--model", str(tmp_path))[1]
    assert "more than 512" in reported("look", "1 " * 600, "--text", *model)[0]
    assert reported("look", "1", "--prot", "3")[1] == "did you mean '--port'?"
    error, hint = reported("look", "1 2", "--pair", "7", "1", *model)
    assert "source" in error
    assert hint == "its tokens: 0 1, 1 2, 2 </s>"
    assert "--pair" in reported("look", "1", "--pair", "1", "1", "--json", *model)[0]


def test_a_file_whose_folder_is_not_there_is_refused_before_the_model_is_asked(reported, tmp_path):
    place = tmp_path / "missing" / "look.html"
    for option in ("--html", "--npz"):
        error, hint = reported("look", "1", option, str(place), "--model", "/no/model/either")
        assert error == f"{place}: there is no folder {place.parent}"
        assert hint == f"make it (mkdir -p {place.parent}), or name another place"
        assert "is a folder" in reported("look", "1", option, str(tmp_path))[0]


@pytest.mark.parametrize(("option", "suffix"), [("--html", ".html"), ("--npz", ".npz")])
def test_a_file_of_another_kind_is_not_replaced(reported, untrained, tmp_path, option, suffix):
    corpus = tmp_path / "corpus.de"
    corpus.write_text("Hallo\n", "utf-8")
    error, hint = reported("look", "1 2", option, str(corpus), "--model", "/no/model/either")
    assert error == f"{corpus} exists, and does not end with {suffix}"
    assert hint == f"name another file, such as corpus{suffix}"
    look = regard.look("1 2", model=untrained)
    write = look.to_html if option == "--html" else look.to_npz
    with pytest.raises(UserError, match="does not end with"):
        write(corpus)
    assert corpus.read_text("utf-8") == "Hallo\n"
    write(tmp_path / "new.other")  # replaces nothing
    old = tmp_path / f"OLD{suffix.upper()}"
    old.write_text("", "utf-8")
    assert write(old).stat().st_size > 100


@pytest.mark.parametrize("option", ["--port=3", "--no-browser"])
@pytest.mark.parametrize("output", ["--html=look.html", "--npz=look.npz", "--text", "--json"])
def test_what_is_for_the_page_alone_is_refused_beside_other_outputs(reported, output, option):
    assert reported("look", "1", output, option)[1] == f"leave {option.partition('=')[0]} out"


def test_the_page_is_served_until_it_is_interrupted(untrained):
    process = start_python(["-m", "regard", "look", "1 2", "--model", untrained, "--no-browser"])
    try:
        line = process.stderr.readline().decode()
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/[\w-]+/)", line)
        assert found
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("GET", f"{found[2]}api/look")
        assert json.loads(connection.getresponse().read())["summary"]["text"] == "1 2"
        connection.close()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert b"Traceback" not in process.communicate(timeout=30)[1]
    finally:
        process.kill()
