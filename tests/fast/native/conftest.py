"""Kernels for other processors: without VNNI, without AVX-512, and without AVX."""

import ctypes
import platform
import subprocess

import pytest

from regard.fast.native import kernels
from regard.fast.native.build import library
from regard.fast.native.compiler import FLAGS, OPENMP_FLAGS, SOURCES, THIS_PROCESSOR, find_compiler
from regard.fast.native.prebuilt import _processor_features

X86 = platform.machine().lower() in ("x86_64", "amd64")
NARROWER = {"AVX2": ["-mno-avx512f"], "SSE": ["-mno-avx"]} if X86 else {}
if "avx_vnni" in _processor_features():
    NARROWER["AVX2"] = ["-mno-avx512f", "-mno-avxvnni"]
if "avx512_vnni" in _processor_features():
    NARROWER["AVX-512 without VNNI"] = ["-mno-avx512vnni"]


@pytest.fixture(scope="session", params=[[], *NARROWER.values()], ids=["own", *NARROWER])
def width(request):
    """Compiler options: none, or those that switch off wide vectors."""
    return request.param


@pytest.fixture(scope="session")
def library_of_width(width, tmp_path_factory):
    """The kernels as they are used, and the same C files for vectors of other widths."""
    if not width:
        return library() or pytest.skip("no C compiler")
    compiler = find_compiler() or pytest.skip("no C compiler")
    file = tmp_path_factory.mktemp("library") / "made.so"
    command = [
        *compiler,
        *FLAGS,
        *THIS_PROCESSOR,
        *OPENMP_FLAGS,
        *width,
        "-O1",
        "-shared",
        *map(str, SOURCES),
    ]
    done = subprocess.run([*command, "-o", str(file), "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(file))


@pytest.fixture
def any_width(library_of_width, monkeypatch):
    """These are the kernels."""
    monkeypatch.setattr(kernels, "library", lambda: library_of_width)
    forget()
    yield
    forget()


def forget():
    kernels.kernel.cache_clear()
    kernels.constant.cache_clear()
