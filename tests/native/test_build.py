"""The C files compile where there is a compiler, once, and nothing stands in the way where there is none."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from regard.layers.int8 import Int8Linear
from regard.native import build, kernels
from regard.native.attention import attend_to_memory
from regard.native.build import FLAGS, HEADERS, SOURCES, THREADS, built, find_compiler, library
from regard.native.linear import PackedLinear
from regard.native.norm import Norm

WARNINGS = ("-Wall", "-Wextra", "-Wno-unknown-pragmas", "-Wno-unused-parameter")  # as without OpenMP
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


@pytest.fixture
def quick(monkeypatch):
    """Where it does not matter how good the code is."""
    monkeypatch.setattr(build, "FLAGS", tuple(flag.replace("-O3", "-O0") for flag in FLAGS))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@needs_compiler
def test_a_compiler_gives_a_library_that_is_made_once(tmp_path):
    first = built(find_compiler(), tmp_path / "deep" / "below")
    assert first is not None
    assert all(hasattr(first, name) for name in (*kernels._TAKES, "panel_width", "has_int8"))
    (file,) = (tmp_path / "deep" / "below").iterdir()
    made = file.stat()
    assert built(find_compiler(), file.parent) is not None
    (file,) = file.parent.iterdir()
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (made.st_mtime_ns, made.st_ino)


@needs_compiler
def test_the_compiler_has_nothing_to_say(width):
    command = [find_compiler(), *FLAGS, *width, *WARNINGS, "-fsyntax-only", *map(str, SOURCES)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.usefixtures("any_width")
def test_vectors_of_any_width_compute_the_same():
    torch.manual_seed(0)
    linear, x = torch.nn.Linear(50, 77).requires_grad_(False), torch.randn(14, 50)
    exact = linear(x)
    packed = PackedLinear(linear.weight, linear.bias)
    torch.testing.assert_close(packed(x), exact, rtol=1e-5, atol=1e-5)
    expected = exact.log_softmax(dim=1).topk(5)
    values, ids, _told = packed.likeliest(x, 5, torch.zeros(14, dtype=torch.int64))
    torch.testing.assert_close(values, expected.values, rtol=1e-5, atol=1e-5)
    assert torch.equal(ids, expected.indices)
    if kernels.has_int8():
        int8 = Int8Linear(linear)
        packed = PackedLinear(int8.weight, int8.bias, scale=int8.weight_scale)
        torch.testing.assert_close(packed(x), int8.plain(x), rtol=1e-4, atol=1e-4)
    gain = torch.rand(50)
    torch.testing.assert_close(
        Norm(gain, None, 1e-5, center=True)(x), torch.layer_norm(x, (50,), gain), rtol=1e-5, atol=1e-5
    )
    query, key, value = torch.randn(1, 20), torch.randn(9, 20), torch.randn(9, 20)
    found = attend_to_memory(query, key, value, torch.tensor([0]), torch.tensor([9]), 9, 20, 0.3)
    mixed = (query @ key.T * 0.3).softmax(dim=1) @ value
    torch.testing.assert_close(found, mixed, rtol=1e-5, atol=1e-5)


@needs_compiler
def test_a_damaged_library_is_made_again(tmp_path, quick):
    file = tmp_path / f"kernels-{build._key(find_compiler())}.so"
    file.write_bytes(b"no library at all" * 100)
    made = built(find_compiler(), tmp_path)
    assert made is not None
    assert made.panel_width() > 0
    assert names(tmp_path) == [file.name]


@needs_compiler
def test_a_compiler_without_openmp_will_do(tmp_path, quick):
    """Those of macOS stop at the word."""
    compiler = tmp_path / "without"
    compiler.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" = {THREADS[0]} ] && exit 1; done\nexec "{find_compiler()}" "$@"\n'
    )
    compiler.chmod(0o755)
    assert built(str(compiler), tmp_path / "made") is not None
    assert len(names(tmp_path / "made")) == 1


@pytest.mark.skipif(os.name != "posix", reason="no such commands")
@pytest.mark.parametrize("command", ["/bin/false", "/bin/true", "/no/such/compiler"])
def test_a_compiler_that_makes_nothing_leaves_nothing(command, tmp_path):
    assert built(command, tmp_path) is None
    assert names(tmp_path) == []


def test_a_compiler_that_takes_too_long_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "SECONDS", 0.2)
    compiler = tmp_path / "slow"
    compiler.write_text("#!/bin/sh\nexec sleep 5\n")
    compiler.chmod(0o755)
    assert built(str(compiler), tmp_path / "made") is None
    assert names(tmp_path / "made") == []


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "file").write_text("")
    assert built(find_compiler() or "/bin/false", tmp_path / "file") is None


@needs_compiler
def test_two_threads_may_build_at_once(tmp_path, quick):
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: built(find_compiler(), tmp_path), range(2)))
    assert all(each is not None for each in made)
    assert len(names(tmp_path)) == 1


@needs_compiler
def test_two_processes_may_build_at_once(tmp_path):
    program = (
        "import pathlib, sys; from regard.native import build;"
        "build.FLAGS = tuple(flag.replace('-O3', '-O0') for flag in build.FLAGS);"
        "sys.exit(build.built(sys.argv[1], pathlib.Path(sys.argv[2])) is None)"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, find_compiler(), str(tmp_path)]) for _ in range(2)
    ]
    assert [each.wait(timeout=60) for each in running] == [0, 0]
    assert len(names(tmp_path)) == 1


def test_nobody_need_have_them(monkeypatch):
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert library.__wrapped__() is None


def test_without_a_compiler_there_are_none(monkeypatch):
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert find_compiler() is None
    assert library.__wrapped__() is None


def test_the_compiler_that_is_asked_for_comes_before_others(monkeypatch):
    monkeypatch.setenv("CC", sys.executable)
    assert find_compiler() == sys.executable
    monkeypatch.setenv("CC", "/no/such/compiler")
    assert find_compiler() is None


@pytest.mark.parametrize("change", ["compiler", "flags", "processor", "source"])
def test_another_machine_or_another_text_has_another_library(change, monkeypatch, tmp_path):
    before = build._key("cc")
    other = tmp_path / "other.c"
    other.write_text("int other;\n")
    match change:
        case "flags":
            monkeypatch.setattr(build, "FLAGS", (*FLAGS, "-g"))
        case "processor":
            monkeypatch.setattr(build, "_processor", lambda: b"another")
        case "source":
            monkeypatch.setattr(build, "SOURCES", [*SOURCES, other])
    assert build._key("gcc" if change == "compiler" else "cc") != before


def test_the_c_files_lie_in_the_package():
    assert {file.stem for file in SOURCES} >= {"linear", "likeliest", "attention", "norm"}
    assert all(file.is_file() for file in (*SOURCES, *HEADERS))
