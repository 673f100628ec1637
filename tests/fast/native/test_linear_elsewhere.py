"""Products in int8 for ARM, run by QEMU: those of the plain layer.

They need Debian's packages gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from regard.fast.int8 import quantise
from regard.fast.native.compiler import FLAGS, SOURCES
from regard.fast.native.prebuilt import TARGETS
from tests.nightly import each_once

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"
PROGRAM = Path(__file__).with_name("linear_elsewhere.c")
CASES = {  # target -> a processor of its kind
    "armv8-a": "cortex-a72",
    "armv8.2-a-dotprod": "neoverse-n1",
}
pytestmark = pytest.mark.skipif(
    not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"no {COMPILER} or no {EMULATOR}"
)


@pytest.fixture(scope="module", params=CASES)
def program(request, tmp_path_factory):
    """The command that runs it."""
    (target,) = (each for each in TARGETS if each.name == request.param)
    made = tmp_path_factory.mktemp("elsewhere") / "linear"
    sources = [path for path in SOURCES if path.stem in ("product", "linear")]
    command = [COMPILER, *FLAGS, *target.flags, "-static", f"-I{SOURCES[0].parent}", PROGRAM, *sources]
    done = subprocess.run([*map(str, command), "-o", str(made), "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return EMULATOR, "-cpu", CASES[request.param], str(made)


@pytest.mark.parametrize(
    ("shape", "extreme"), each_once([(1, 3, 5), (9, 50, 77), (4, 256, 64)], [False, True]), ids=str
)
def test_arm_multiplies_the_same_integers(program, shape, extreme):
    rows, features, columns = shape
    torch.manual_seed(features)
    weight, x, bias = torch.randn(columns, features), torch.randn(rows, features), torch.randn(columns)
    if extreme:  # the largest integers of either sign, which add up
        weight, x = weight.sign(), x[:1].sign().expand(rows, -1).contiguous()
    weight, scale = quantise(weight)
    sizes = torch.tensor([rows, features, columns])
    parts = (sizes, x, weight, scale, bias)
    written = b"".join(each.numpy().tobytes() for each in parts)
    done = subprocess.run(program, input=written, capture_output=True)
    assert done.returncode == 0, done.stderr
    found = torch.frombuffer(bytearray(done.stdout), dtype=torch.float32).view(rows, columns)
    torch.testing.assert_close(found, int8_linear(x, weight, scale, bias), rtol=1e-5, atol=1e-5)


def int8_linear(x, weight, scale, bias):
    """Each row of `x` quantised to -127 ... 127 by its own scale, exact sums of integers."""
    step = x.abs().amax(dim=1, keepdim=True).clamp_min(1e-30) / 127
    levels = (x / step + 128.5).floor() - 128
    return ((levels.double() @ weight.double().T) * scale * step + bias).float()
