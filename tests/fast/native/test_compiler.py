"""A C compiler is found, with the options in CC; its failures are reported in one line."""

import os
import subprocess
import sys

import pytest

from regard.errors import RegardError, UserError
from regard.fast.native import compiler as module
from regard.fast.native.compiler import (
    FLAGS,
    HEADERS,
    SOURCES,
    THIS_PROCESSOR,
    compile_library,
    find_compiler,
    library_key,
    require_compiler,
)

WARNINGS = ("-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-unused-parameter")  # as without OpenMP
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
posix = pytest.mark.skipif(os.name != "posix", reason="no such commands")


@needs_compiler
def test_the_compiler_has_nothing_to_say(width):
    command = [
        *find_compiler(),
        *FLAGS,
        *THIS_PROCESSOR,
        *width,
        *WARNINGS,
        "-fsyntax-only",
        *map(str, SOURCES),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_c_files_lie_in_the_package():
    assert {file.stem for file in SOURCES} >= {"linear", "top_candidates", "attention", "norm"}
    assert all(file.is_file() for file in (*SOURCES, *HEADERS))


def test_the_compiler_that_is_asked_for_comes_before_others(monkeypatch):
    monkeypatch.setenv("CC", sys.executable)
    assert find_compiler() == (sys.executable,)
    monkeypatch.setenv("CC", f'"{sys.executable}"  -m64 -DNAME="a b"')
    assert find_compiler() == (sys.executable, "-m64", "-DNAME=a b")


def test_the_path_of_a_compiler_may_hold_spaces(tmp_path, monkeypatch):
    compiler = tmp_path / "my compiler"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert find_compiler() == (str(compiler),)


@pytest.mark.parametrize("asked", ["/no/such/compiler", "/no/such/compiler -m64", "gcc 'that does not end"])
def test_a_compiler_that_is_asked_for_and_not_there_is_named(asked, monkeypatch):
    monkeypatch.setenv("CC", asked)
    assert find_compiler() is None
    with pytest.raises(UserError) as caught:
        require_compiler()
    assert repr(asked) in caught.value.message
    assert "CC" in caught.value.hint


def test_without_a_compiler_none_is_found(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert find_compiler() is None
    with pytest.raises(UserError, match="there is no C compiler") as caught:
        require_compiler()
    assert "install gcc or clang" in caught.value.hint


@posix
@pytest.mark.parametrize(
    ("command", "reported"),
    [
        ("/bin/false", "exit status 1"),
        ("/bin/true", "wrote no library"),
        ("/no/such/compiler", "cannot be run: No such file"),
        ("/", "cannot be run: Permission denied"),
    ],
)
def test_a_compiler_that_produces_nothing_is_reported_with_the_reason(command, reported, tmp_path):
    with pytest.raises(RegardError, match=f"{command} .*{reported}") as caught:
        compile_library((command,), tmp_path / "made.so")
    assert "CC" in caught.value.hint


@needs_compiler
def test_the_error_of_the_compiler_is_reported(tmp_path, monkeypatch):
    wrong = tmp_path / "wrong.c"
    wrong.write_text("int f(void) { return nothing; }\n")
    monkeypatch.setattr(module, "SOURCES", [wrong])
    with pytest.raises(RegardError, match=r"cannot compile the kernels: .*wrong\.c:1:.*error.*nothing"):
        compile_library(find_compiler(), tmp_path / "made.so")


@posix
def test_a_compiler_that_takes_too_long_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COMPILE_TIMEOUT", 0.2)
    compiler = tmp_path / "slow"
    compiler.write_text("#!/bin/sh\nexec sleep 5\n")
    compiler.chmod(0o755)
    with pytest.raises(RegardError, match="took longer than"):
        compile_library((str(compiler),), tmp_path / "made.so")


@posix
def test_what_a_compiler_leaves_for_itself_lies_beside_what_it_makes(tmp_path):
    """In a folder that other users can write to, they could change it before it is linked."""
    compiler = tmp_path / "compiler"
    compiler.write_text('#!/bin/sh\ntouch "$TMPDIR/between"\n')
    compiler.chmod(0o755)
    (tmp_path / "build").mkdir()
    with pytest.raises(RegardError):
        compile_library((str(compiler),), tmp_path / "build" / "made.so")
    assert [path.name for path in (tmp_path / "build").iterdir()] == ["between"]


@pytest.mark.parametrize("change", ["compiler", "options", "flags", "processor", "source"])
def test_another_machine_or_another_text_has_another_library(change, monkeypatch, tmp_path):
    before = library_key(["cc"])
    other = tmp_path / "other.c"
    other.write_text("int other;\n")
    match change:
        case "flags":
            monkeypatch.setattr(module, "FLAGS", (*FLAGS, "-g"))
        case "processor":
            monkeypatch.setattr(module, "_processor", lambda: b"another")
        case "source":
            monkeypatch.setattr(module, "SOURCES", [*SOURCES, other])
    assert library_key({"compiler": ["gcc"], "options": ["cc", "-m64"]}.get(change, ["cc"])) != before
