"""Runs the tests of the kernels in C under the address and undefined-behaviour sanitizers: `make sanitize`.

.venv/bin/python tools/sanitize.py [PYTEST ARGUMENTS]

The kernels are compiled once more, by gcc, with checks of each access to memory and of each operation. Memory
of tensors is checked too: PyTorch gets it from the same allocator. The first error ends the tests.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "sanitize"
REPORT = BUILD / "report"
TESTS = [
    "tests/fast/native",
    "tests/fast/test_decoding_step.py",
    "tests/fast/test_encoder.py",
    "tests/decoding/test_steps_at_once.py",
]
# -O1: with -O3 the checks of the products take minutes to compile
COMPILER = """#!/bin/sh
unset LD_PRELOAD
for argument; do
  shift
  [ "$argument" = -O3 ] && argument=-O1
  set -- "$@" "$argument"
done
exec gcc -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1 "$@"
"""


def main() -> None:
    """Run the tests; the exit code is pytest's, or 2 if there is no gcc."""
    if shutil.which("gcc") is None:
        print("tools/sanitize.py needs gcc, which is not installed", file=sys.stderr)
        raise SystemExit(2)
    BUILD.mkdir(parents=True, exist_ok=True)
    compiler = BUILD / "compiler"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    environment = os.environ | {
        "CC": str(compiler),
        "XDG_CACHE_HOME": str(BUILD / "cache"),
        "LD_PRELOAD": " ".join(library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so")),
        # Python never frees all; pytest would hide what is printed
        "ASAN_OPTIONS": f"detect_leaks=0:abort_on_error=1:log_path={REPORT}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={REPORT}",
    }
    for old in reports():
        old.unlink()
    check = "from regard.fast.native.kernels import available; raise SystemExit(not available())"
    if subprocess.run([sys.executable, "-c", check], cwd=ROOT, env=environment, check=False).returncode:
        print("the kernels could not be compiled with sanitizers: is libasan installed?", file=sys.stderr)
        raise SystemExit(2)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    tests = sys.argv[1:] or TESTS
    code = subprocess.run([*command, *tests], cwd=ROOT, env=environment, check=False).returncode
    for each in reports():
        print(each.read_text("utf-8", errors="replace"), file=sys.stderr)
    raise SystemExit(code)


def reports() -> list[Path]:
    """What the sanitizers have written, a file for each process that failed."""
    return sorted(REPORT.parent.glob(f"{REPORT.name}.*"))


def library(name: str) -> str:
    """The path of a library of gcc."""
    gcc = shutil.which("gcc") or "gcc"
    done = subprocess.run([gcc, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()
