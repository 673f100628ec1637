"""The file of translations: gzipped by its name, never over its own input, whole or not there."""

import errno
import gzip
import os
import platform
import signal
import subprocess
import sys

import pytest

from regard.cli import run, translation_options
from regard.errors import DataError, Interrupted, UserError
from regard.verbs.generation import translations
from regard.verbs.generation.candidates import TranslationCandidate
from regard.verbs.generation.translations import Translation, check_output, write_lines
from regard.verbs.translate import Translator, translate_file
from tests.warm_process import run_python


@pytest.fixture
def source(tmp_path):
    file = tmp_path / "source"
    file.write_text("1 2\n3\n", "utf-8")
    return file


def test_a_name_with_gz_is_gzipped(source, tmp_path, untrained):
    assert translate_file(source, tmp_path / "out", model=untrained) == 2
    assert translate_file(source, tmp_path / "out.gz", model=untrained) == 2
    assert gzip.decompress((tmp_path / "out.gz").read_bytes()) == (tmp_path / "out").read_bytes()
    assert not [*tmp_path.glob(".*")]
    translate_file(source, tmp_path / "again.gz", model=untrained)
    assert (tmp_path / "again.gz").read_bytes() == (tmp_path / "out.gz").read_bytes()


@pytest.mark.parametrize("link", ["same", "symbolic", "hard", "another spelling"])
def test_the_input_is_never_replaced(source, tmp_path, untrained, link, capsys):
    output = {"same": source, "another spelling": tmp_path / "x" / ".." / "source"}.get(
        link, tmp_path / "link"
    )
    (tmp_path / "x").mkdir()
    if link == "symbolic":
        output.symlink_to(source)
    elif link == "hard":
        os.link(source, output)
    with pytest.raises(UserError, match="would be replaced by its output"):
        translate_file(source, output, model=untrained)
    for verb in ("translate", "summarize"):
        assert run([verb, "--input", str(source), "--output", str(output), "--model", "/no/model"]) == 2
        assert "would be replaced by its output" in capsys.readouterr().err
    assert source.read_text("utf-8") == "1 2\n3\n"


def test_other_places_are_not_refused(source, tmp_path):
    check_output(source, tmp_path / "absent")
    check_output(tmp_path / "absent", source)  # is reported when it is read
    check_output(None, source)  # standard input is another file
    check_output(source, None)


def test_standard_input_is_not_replaced_either(source, untrained):
    call = (
        "import os, sys\n"
        "from regard.cli import run\n"
        "os.dup2(os.open(sys.argv[1], os.O_RDONLY), 0)\n"
        "sys.stdin = open(0, encoding='utf-8')\n"
        "sys.exit(run(sys.argv[2:]))"
    )
    done = run_python(["-c", call, source, "translate", "--output", source, "--model", untrained])
    assert done.returncode == 2
    assert "would be replaced by its output" in done.stderr
    assert source.read_text("utf-8") == "1 2\n3\n"


def test_an_interrupted_output_is_named_and_so_is_what_keeps_it(tmp_path, untrained):
    translator, output = Translator(untrained), tmp_path / "out"

    def interrupted():
        yield next(iter(translator(["1 2", "3"])))
        raise KeyboardInterrupt

    with pytest.raises(Interrupted, match="out was not written") as caught:
        translation_options._print(translator, interrupted(), output, as_json=False)
    assert "--shard 1/1" in caught.value.hint
    assert caught.value.exit_code == 128 + signal.SIGINT
    assert not output.exists()
    assert not [*tmp_path.glob(".*")]


@pytest.mark.parametrize("suffix", [".xz", ".zst", ".bz2", ".ZIP"])
def test_another_compression_is_refused_before_the_model_is_loaded(source, tmp_path, suffix, capsys):
    output = tmp_path / f"out{suffix}"
    assert run(["translate", "--input", str(source), "--output", str(output), "--model", "/no/model"]) == 2
    assert "compressed by gzip only" in capsys.readouterr().err
    assert not output.exists()
    output.write_bytes(b"old")
    assert run(["translate", "--input", str(source), "--output", str(output), "--model", "/no/model"]) == 2
    assert output.read_bytes() == b"old"


@pytest.mark.parametrize("verb", ["translate", "summarize"])
def test_another_compression_is_refused_for_a_text_too(verb, tmp_path, capsys):
    output = tmp_path / "out.bz2"
    assert run([verb, "1 2", "--output", str(output), "--model", "/no/model"]) == 2
    assert "compressed by gzip only" in capsys.readouterr().err


def test_two_writers_of_one_file_never_mix_their_lines(tmp_path):
    """The file is of the one that ends last, as a whole."""

    def lines(of, meanwhile=lambda: None):
        for line in (1, 2):
            yield Translation(line=line, source="", candidates=(candidate(of),))
            meanwhile()

    def candidate(text):
        return TranslationCandidate(text=text, score=0.0, log_prob=0.0, tokens=(), token_log_probs=())

    output = tmp_path / "out"

    def another():
        if not (child := os.fork()):
            write_lines(lines("b"), output)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

    write_lines(lines("a", another), output)
    assert output.read_text("utf-8") == "a\na\n"
    assert not [*tmp_path.glob(".*")]


def test_a_full_disk_names_the_output(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(translations.os, "replace", full)
    with pytest.raises(DataError, match="out: No space left"):
        write_lines(iter(()), tmp_path / "out")
    with pytest.raises(DataError, match="out: No space left"):
        write_lines((full() for _ in range(1)), tmp_path / "out")


@pytest.mark.skipif(os.name == "nt", reason="processes are not asked for on Windows")
def test_what_a_killed_process_of_this_machine_has_left_is_removed_at_the_next_write(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    here = platform.node()
    left = tmp_path / f".out.txt.{here}.{ended.pid}.partial"
    kept = [
        tmp_path / f".out.txt.{here}.{os.getppid()}.partial",  # of a process that runs
        tmp_path / f".out.txt.elsewhere.{ended.pid}.partial",
        tmp_path / f".other.txt.{here}.{ended.pid}.partial",
        tmp_path / f"out.txt.{here}.{ended.pid}.partial",
    ]
    for path in (left, *kept):
        path.touch()
    assert write_lines([], tmp_path / "out.txt") == 0
    assert sorted(tmp_path.iterdir()) == sorted([*kept, tmp_path / "out.txt"])
