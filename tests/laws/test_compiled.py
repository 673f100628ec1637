"""torch.compile and torch.export change no number.

They run in a process of their own, because they cannot see through the checks of types that tests run under.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = {"d_model": 16, "num_heads": 4, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}
VARIANTS = {
    "paper": SMALL,
    "modern": {
        **SMALL,
        "norm": "rms",
        "norm_position": "pre",
        "activation": "swiglu",
        "positions": "rotary",
        "num_kv_heads": 2,
    },
}


@pytest.fixture(scope="module")
def differences():
    script = Path(__file__).with_name("compiled.py")
    run = subprocess.run([sys.executable, script, json.dumps(VARIANTS)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("what", ["compiled", "gradients", "exported"])
def test_numbers_stay_the_same(differences, variant, what):
    assert differences[variant][what] < 1e-6
