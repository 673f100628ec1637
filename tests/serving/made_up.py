"""Requests that schemathesis, as a program, makes up from the OpenAPI document of a server."""

import os
import re
import subprocess
import sys
from pathlib import Path

SCHEMATHESIS = Path(sys.executable).parent / "schemathesis"
HOOKS = Path(__file__).parent / "schemathesis_hooks.py"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def made_up_requests(url, folder, most, seed=None):
    """How many requests were made up, at most `most` for an operation, and passed.

    Operations that are linked in the document are also called one after the other.

    Raises:
        AssertionError: an answer is not in the document; it has what schemathesis says.
    """
    command = [
        *(str(SCHEMATHESIS), "run", f"{url}/openapi.json", "--phases", "fuzzing,stateful"),
        *("--max-examples", str(most), "--generation-database", "none", "--checks", CHECKS),
        *(() if seed is None else ("--seed", str(seed))),
    ]
    environment = {
        **os.environ,
        "no_proxy": "127.0.0.1",
        "NO_COLOR": "1",
        "SCHEMATHESIS_HOOKS": HOOKS.stem,
        "PYTHONPATH": str(HOOKS.parent),
    }
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    found = re.search(r"(\d[\d,]*) generated, (\d[\d,]*) (?:found no problems|passed)", done.stdout)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    assert found, done.stdout[-4000:]
    assert found[1] == found[2], done.stdout[-4000:]
    return int(found[1].replace(",", ""))
