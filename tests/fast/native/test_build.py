"""The C files become a library where there is a compiler, once; where they cannot, it is known why."""

import logging
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from regard.errors import RegardError, UserError
from regard.fast.int8 import Int8Linear
from regard.fast.native import build, compiler, kernels
from regard.fast.native.attention import attend_to_memory
from regard.fast.native.build import built, find_library, library, why_none
from regard.fast.native.compiler import FLAGS, OPENMP_FLAGS, find_compiler
from regard.fast.native.linear import PackedLinear
from regard.fast.native.norm import PackedNorm

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")
posix = pytest.mark.skipif(os.name != "posix", reason="no such commands")


@pytest.fixture
def one_file(monkeypatch, tmp_path_factory):
    """One small C file instead of all, for tests that do not use the kernels."""
    source = tmp_path_factory.mktemp("source") / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    monkeypatch.setattr(compiler, "SOURCES", [source])
    return source


@pytest.fixture
def fresh(monkeypatch):
    """Nothing is known yet of kernels, and it is forgotten afterwards."""
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    monkeypatch.delenv("CC", raising=False)
    caches = (build.library, build._found)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def libraries(folder):
    return sorted(path for path in folder.iterdir() if path.name != "lock" and path.suffix != ".json")


@needs_compiler
def test_a_compiler_gives_a_library_that_is_made_once(tmp_path, monkeypatch):
    monkeypatch.setattr(compiler, "FLAGS", tuple(flag.replace("-O3", "-O0") for flag in FLAGS))
    first = built(find_compiler(), tmp_path / "deep" / "below")
    assert all(hasattr(first, name) for name in (*kernels._TAKES, "panel_width", "has_int8"))
    (file,) = libraries(tmp_path / "deep" / "below")
    made = file.stat()
    built(find_compiler(), file.parent)
    (file,) = libraries(file.parent)
    assert (file.stat().st_mtime_ns, file.stat().st_ino) == (made.st_mtime_ns, made.st_ino)


@pytest.mark.usefixtures("any_width")
def test_vectors_of_any_width_compute_the_same():
    torch.manual_seed(0)
    linear, x = torch.nn.Linear(50, 77).requires_grad_(False), torch.randn(14, 50)
    exact = linear(x)
    packed = PackedLinear(linear.weight, linear.bias)
    torch.testing.assert_close(packed(x), exact, rtol=1e-5, atol=1e-5)
    expected = exact.log_softmax(dim=1).topk(5)
    values, ids, _asked_log_probs = packed.top_candidates(x, 5, torch.zeros(14, dtype=torch.int64))
    torch.testing.assert_close(values, expected.values, rtol=1e-5, atol=1e-5)
    assert torch.equal(ids, expected.indices)
    if kernels.has_int8():
        int8 = Int8Linear(linear)
        packed = PackedLinear(int8.weight, int8.bias, scale=int8.weight_scale)
        torch.testing.assert_close(packed(x), int8.plain(x), rtol=1e-4, atol=1e-4)
        sign = int8.weight.sign() * 127  # the largest integers of either sign, which add up
        packed, x_of_ones = PackedLinear(sign, None, scale=torch.ones(77)), sign[:14].float()
        assert torch.equal(packed(x_of_ones).round(), (sign[:14].double() @ sign.double().T).float())
    gain = torch.rand(50)
    torch.testing.assert_close(
        PackedNorm(gain, None, 1e-5, center=True)(x), torch.layer_norm(x, (50,), gain), rtol=1e-5, atol=1e-5
    )
    query, key, value = torch.randn(1, 20), torch.randn(9, 20), torch.randn(9, 20)
    found = attend_to_memory(query, key, value, torch.tensor([0]), torch.tensor([9]), 9, 20, 0.3)
    mixed = (query @ key.T * 0.3).softmax(dim=1) @ value
    torch.testing.assert_close(found, mixed, rtol=1e-5, atol=1e-5)


@needs_compiler
@pytest.mark.usefixtures("one_file")
@pytest.mark.parametrize("damage", [lambda content: content[:5000], lambda content: b"\0" * len(content)])
def test_a_damaged_library_is_made_again(tmp_path, damage):
    built(find_compiler(), tmp_path)
    (file,) = libraries(tmp_path)
    whole = file.read_bytes()
    file.unlink()  # what this process has loaded stays as it is
    file.write_bytes(damage(whole))
    assert built(find_compiler(), tmp_path).one() == 1
    assert libraries(tmp_path) == [file]
    assert file.read_bytes() == whole


@needs_compiler
@pytest.mark.usefixtures("one_file")
def test_a_compiler_without_openmp_will_do(tmp_path):
    """Those of macOS stop at the word."""
    without = tmp_path / "without"
    without.write_text(
        f'#!/bin/sh\nfor word; do [ "$word" = {OPENMP_FLAGS[0]} ] && exit 1; done\n'
        f'exec "{find_compiler()[0]}" "$@"\n'
    )
    without.chmod(0o755)
    assert built((str(without),), tmp_path / "made").one() == 1
    assert len(libraries(tmp_path / "made")) == 1


@needs_compiler
def test_the_options_of_cc_reach_the_compiler(tmp_path, one_file, monkeypatch):
    one_file.write_text("int one(void) { return NUMBER; }\n")
    monkeypatch.setenv("CC", f"{find_compiler()[0]} -DNUMBER=7")
    assert built(find_compiler(), tmp_path).one() == 7


@posix
@pytest.mark.parametrize("command", ["/bin/false", "/bin/true", "/no/such/compiler"])
def test_a_compiler_that_makes_nothing_leaves_nothing(command, tmp_path):
    with pytest.raises(RegardError, match=command):
        built((command,), tmp_path)
    assert libraries(tmp_path) == []


def test_a_folder_that_cannot_be_created_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"file: Not a directory|cannot be made") as caught:
        built(("/bin/false",), tmp_path / "file")
    assert "XDG_CACHE_HOME" in caught.value.hint


@posix
def test_nothing_is_compiled_where_others_could_change_it(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(UserError, match="shared can be written to"):
        built(("/bin/false",), tmp_path / "shared" / "regard" / "native")
    assert list((tmp_path / "shared").iterdir()) == []


@posix
@needs_compiler
@pytest.mark.usefixtures("one_file")
def test_a_library_is_not_loaded_once_others_can_change_a_folder_above_it(tmp_path):
    built(find_compiler(), tmp_path / "shared" / "regard" / "native")
    (tmp_path / "shared").chmod(0o777)
    with pytest.raises(UserError, match="shared can be written to"):
        built(find_compiler(), tmp_path / "shared" / "regard" / "native")


@posix
def test_where_no_library_can_be_loaded_none_is_compiled(tmp_path, monkeypatch):
    def refuse(folder):
        raise UserError("mounted noexec")

    monkeypatch.setattr(build, "refuse_noexec", refuse)
    with pytest.raises(UserError, match="noexec"):
        built(("/bin/false",), tmp_path)


@needs_compiler
@pytest.mark.usefixtures("one_file")
def test_a_library_that_cannot_be_loaded_is_not_compiled_at_each_start(tmp_path, monkeypatch):
    monkeypatch.setattr(compiler, "_compile_and_link", lambda *given: given[-1].write_bytes(b"none"))
    with pytest.raises(RegardError, match="cannot be loaded"):
        built(find_compiler(), tmp_path)
    monkeypatch.setattr(compiler, "_compile_and_link", None)
    with pytest.raises(RegardError, match="cannot be loaded"):
        built(find_compiler(), tmp_path)


@needs_compiler
@pytest.mark.usefixtures("one_file")
def test_two_threads_may_build_at_once(tmp_path):
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda _: built(find_compiler(), tmp_path), range(2)))
    assert [each.one() for each in made] == [1, 1]
    assert len(libraries(tmp_path)) == 1


COMPILING = """
import pathlib, sys
from regard.fast.native import build, compiler
compiler.SOURCES = [pathlib.Path(sys.argv[1])]
build.built(sys.argv[3:], pathlib.Path(sys.argv[2]))
"""


def compiling(source, folder, *command):
    return subprocess.Popen([sys.executable, "-c", COMPILING, str(source), str(folder), *command])


@needs_compiler
def test_two_processes_may_build_at_once(tmp_path, one_file):
    running = [compiling(one_file, tmp_path, *find_compiler()) for _ in range(2)]
    assert [each.wait(timeout=60) for each in running] == [0, 0]
    assert len(libraries(tmp_path)) == 1


@posix
@needs_compiler
def test_what_a_killed_compiling_process_left_is_swept_by_the_next(tmp_path, one_file):
    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\necho $$ > "$TMPDIR/pid"\nexec sleep 60\n')
    slow.chmod(0o755)
    process = compiling(one_file, tmp_path / "cache", str(slow))
    pid = wait_for(lambda: next((file.read_text() for file in tmp_path.glob("cache/build-*/pid")), ""))
    assert built(find_compiler(), tmp_path / "cache").one() == 1
    assert len(list(tmp_path.glob("cache/build-*"))) == 1  # a process that lives is at work there
    process.kill()
    process.wait()
    os.kill(int(pid), signal.SIGKILL)
    one_file.write_text("int one(void) { return 2; }\n")
    assert built(find_compiler(), tmp_path / "cache").one() == 2
    assert list(tmp_path.glob("cache/build-*")) == []


def wait_for(found):
    """What `found` gives as soon as it gives something."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if something := found():
            return something
        time.sleep(0.02)
    raise TimeoutError


@pytest.mark.usefixtures("fresh")
def test_nobody_need_have_them(monkeypatch, caplog):
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert library() is None
    assert "REGARD_NATIVE" in why_none().message
    assert caplog.records == []


@pytest.mark.usefixtures("fresh")
def test_without_a_compiler_there_are_none(monkeypatch, caplog):
    monkeypatch.setenv("PATH", "")
    assert library() is None
    assert "no C compiler" in why_none().message
    assert caplog.records == []


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("asked", ["/no/such/compiler", "/bin/false"])
def test_what_should_be_there_and_is_not_is_warned_of_once(asked, monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("CC", asked)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert [library(), library()] == [None, None]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert asked in record.getMessage()
    assert "CC" in record.getMessage()


def test_a_user_without_a_home_is_reported(monkeypatch):
    monkeypatch.delenv("REGARD_NATIVE", raising=False)
    monkeypatch.setenv("CC", sys.executable)

    def homeless(part):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(build, "user_cache", homeless)
    with pytest.raises(UserError, match="no home"):
        find_library()
