"""A wheel's kernels: chosen by what the processor has, loaded without a compiler, the same numbers."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from regard.errors import UserError
from regard.fast.native import build, compiler, prebuilt
from regard.fast.native.compiler import compile_portable_library, find_compiler
from regard.fast.native.prebuilt import TARGETS, fitting_targets, load_prebuilt
from tests.warm_process import run_python

ROOT = Path(__file__).parents[3]
needs_compiler = pytest.mark.skipif(
    find_compiler() is None or not any(fitting_targets()),
    reason="no C compiler, or no target for this processor",
)


@pytest.fixture
def processor(monkeypatch, tmp_path):
    """Makes this a processor of one of the targets, or of given features."""

    def made(machine, features, *, key="flags"):
        info = tmp_path / "cpuinfo"
        info.write_text(f"processor\t: 0\n{key}\t\t: {' '.join(sorted(features))}\nbugs\t:\n")
        monkeypatch.setattr(prebuilt, "CPU_INFO", info)
        monkeypatch.setattr(prebuilt.platform, "machine", lambda: machine)

    return made


@pytest.fixture
def one_file(monkeypatch, tmp_path):
    """One small C file instead of all."""
    source = tmp_path / "one.c"
    source.write_text("int one(void) { return 1; }\n")
    monkeypatch.setattr(compiler, "SOURCES", [source])
    return source


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty folder in place of the package's."""
    place = tmp_path / "prebuilt"
    place.mkdir()
    monkeypatch.setattr(prebuilt, "FOLDER", place)
    return place


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_processor_of_a_target_takes_it_first(processor, target):
    key = "Features" if target.machine == "aarch64" else "flags"
    processor(target.machine, target.features | {"fpu"}, key=key)
    assert next(fitting_targets()) is target


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_processor_that_lacks_a_feature_does_not_take_the_target(processor, target):
    for feature in target.features:
        processor(target.machine, target.features - {feature})
        assert target not in fitting_targets()
    processor("riscv64", target.features)
    assert list(fitting_targets()) == []


def test_without_proc_cpuinfo_nothing_is_taken(monkeypatch, tmp_path):
    monkeypatch.setattr(prebuilt, "CPU_INFO", tmp_path / "none")
    assert list(fitting_targets()) == []


@needs_compiler
@pytest.mark.usefixtures("one_file")
def test_a_library_is_loaded_if_it_is_of_the_same_c_files(folder, tmp_path, one_file):
    target = next(fitting_targets())
    made = tmp_path / "made.so"
    compile_portable_library(find_compiler(), target.flags, made)
    made.rename(folder / target.file)
    found, of = load_prebuilt()
    assert (found.one(), of) == (1, target)
    one_file.write_text("int one(void) { return 2; }\n")
    assert load_prebuilt() is None


@pytest.mark.skipif(not any(fitting_targets()), reason="no target for this processor")
def test_a_library_that_cannot_be_loaded_is_passed_over(folder):
    for target in fitting_targets():
        (folder / target.file).write_bytes(b"\x7fELF, damaged")
    assert load_prebuilt() is None


def test_a_misspelt_setting_is_refused(monkeypatch):
    monkeypatch.setenv("REGARD_NATIVE", "2")
    with pytest.raises(UserError, match="REGARD_NATIVE is '2'") as caught:
        build.find_library()
    assert "compile" in caught.value.hint


NUMBERS = """
import sys
import torch
from regard.fast.native import build, prebuilt
from regard.fast.native.linear import PackedLinear
from pathlib import Path

prebuilt.FOLDER = Path(sys.argv[1])
torch.manual_seed(0)
torch.set_num_threads(2)
linear, x = torch.nn.Linear(512, 2048).requires_grad_(False), torch.randn(64, 512)
found = PackedLinear(linear.weight, linear.bias)(x)
torch.testing.assert_close(found, linear(x), rtol=1e-4, atol=1e-5)
print(build.library_origin())
"""


@needs_compiler
def test_without_a_compiler_the_kernels_run_on_the_threads_of_pytorch(folder, tmp_path):
    """In a process of its own: no compiler is on its path, and its cache is empty."""
    target = next(fitting_targets())
    made = tmp_path / "made.so"
    compile_portable_library(find_compiler(), target.flags, made)
    made.rename(folder / target.file)
    environment = os.environ | {"PATH": str(tmp_path / "none"), "XDG_CACHE_HOME": str(tmp_path)}
    for name in ("CC", "REGARD_NATIVE", "OMP_NUM_THREADS"):
        environment.pop(name, None)
    run = run_python(["-c", NUMBERS, folder], env=environment)
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == f"prebuilt for {target.name}"
    assert list(tmp_path.glob("regard/native/*.so")) == []


@pytest.mark.nightly
@needs_compiler
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="wheels of other systems have none")
@pytest.mark.parametrize("pure", [False, True])
def test_a_wheel_has_the_kernels_of_its_machine_type(tmp_path, pure):
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        [*command, "--wheel-dir", str(tmp_path), str(ROOT)],
        check=True,
        env=os.environ | ({"REGARD_WHEEL": "pure"} if pure else {}),
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    kernels = {name for name in names if name.endswith(".so")}
    machine = prebuilt.platform.machine()
    expected = {f"regard/fast/native/prebuilt/{each.file}" for each in TARGETS if each.machine == machine}
    assert kernels == (set() if pure else expected)
    assert wheel.stem.endswith("none-any") == (pure or not expected)
